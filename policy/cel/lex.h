#ifndef CEL_LEX_H
#define CEL_LEX_H

#include "policy/cel/ast.h"

enum token_kind {
    TOKEN_END,
    TOKEN_INT,
    TOKEN_UINT,
    TOKEN_DOUBLE,
    TOKEN_STRING,
    TOKEN_BYTES,
    TOKEN_IDENT,
    TOKEN_QUOTED, /* `backquoted` */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
    TOKEN_IN,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_QUESTION,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_PERCENT,
    TOKEN_NOT,
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_ERROR, /* the compilation has failed */
};

struct token {
    uint8_t kind; /* enum token_kind */
    uint32_t begin;
    uint32_t end;
    struct str text; /* names and numbers as written; STRING and BYTES decoded */
};

struct lexer {
    struct compile *c;
    uint32_t pos;
};

struct token lex_next(struct lexer *lexer);

/* Reserved words are no names of variables or global functions, but may follow a dot. */
bool lex_is_reserved(struct str word);

#endif
