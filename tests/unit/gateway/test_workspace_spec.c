#include <check.h>
#include <stdio.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/workspace_spec.h"

Suite *suite_workspace_spec(void);

static struct arena arena;
static struct error err;

static void open_arena(void)
{
    arena_init(&arena, 8 * 1024 * 1024);
    err = (struct error){0};
}

static void close_arena(void)
{
    arena_free(&arena);
}

static Cordium__Template__Spec *template_of(const char *yaml)
{
    ProtobufCMessage *m;
    ck_assert_msg(!codec_decode_yaml(&cordium__template__spec__descriptor, str_from(yaml),
                                     CODEC_STRICT, &arena, &m, &err),
                  "%s", err.text);
    return (Cordium__Template__Spec *)m;
}

static Cordium__Workspace__Spec *spec_of(const char *yaml)
{
    ProtobufCMessage *m;
    ck_assert_msg(!codec_decode_yaml(&cordium__workspace__spec__descriptor, str_from(yaml),
                                     CODEC_STRICT, &arena, &m, &err),
                  "%s", err.text);
    return (Cordium__Workspace__Spec *)m;
}

static Cordium__Workspace__Spec *merge(const char *template_yaml, const char *yaml)
{
    Cordium__Workspace__Spec *merged;
    ck_assert_int_eq(
        workspace_spec_merge(template_of(template_yaml), spec_of(yaml), &arena, &merged, &err), 0);
    return merged;
}

START_TEST(merge_scalar_of_workspace_wins)
{
    Cordium__Workspace__Spec *m =
        merge("{runtime: {cmd: a, entrypoint: e}, limit: {cpu: {millicores: 100}}}",
              "{runtime: {cmd: b}, limit: {memory: {megabytes: 64}}}");
    ck_assert_str_eq(m->runtime->cmd, "b");
    ck_assert_str_eq(m->runtime->entrypoint, "e");
    ck_assert_uint_eq(m->limit->cpu->millicores, 100);
    ck_assert_uint_eq(m->limit->memory->megabytes, 64);
}
END_TEST

START_TEST(merge_lists_join_template_first)
{
    Cordium__Workspace__Spec *m =
        merge("{runtime: {envVars: [{key: A, value: one}]}}",
              "{runtime: {envVars: [{key: B, value: two}, {key: A, value: three}]}}");
    ck_assert_uint_eq(m->runtime->n_env_vars, 3);
    ck_assert_str_eq(m->runtime->env_vars[0]->value, "one");
    ck_assert_str_eq(m->runtime->env_vars[2]->value, "three");
}
END_TEST

START_TEST(merge_image_kind_of_workspace_replaces)
{
    Cordium__Workspace__Spec *m =
        merge("{image: {dockerfile: {inline: FROM x}}}", "{image: {registry: {url: 'debian:13'}}}");
    ck_assert_int_eq(m->image->type_case, CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY);
    ck_assert_str_eq(m->image->registry->url, "debian:13");
}
END_TEST

START_TEST(merge_does_not_change_the_template)
{
    Cordium__Template__Spec *t = template_of("{runtime: {tasks: [{name: a, run: x}]}}");
    Cordium__Workspace__Spec *merged;
    ck_assert_int_eq(workspace_spec_merge(t, spec_of("{runtime: {tasks: [{name: b, run: y}]}}"),
                                          &arena, &merged, &err),
                     0);
    ck_assert_uint_eq(t->runtime->n_tasks, 1);
    ck_assert_uint_eq(merged->runtime->n_tasks, 2);
}
END_TEST

static const char *expand(const char *text)
{
    static Cordium__Workspace__Spec__Var a = CORDIUM__WORKSPACE__SPEC__VAR__INIT;
    static Cordium__Workspace__Spec__Var b = CORDIUM__WORKSPACE__SPEC__VAR__INIT;
    a.name = (char *)"NAME";
    a.value = (char *)"old";
    b.name = (char *)"NAME";
    b.value = (char *)"new";
    Cordium__Workspace__Spec__Var *list[] = {&a, &b};
    const struct workspace_vars vars = {list, 2};
    return workspace_vars_expand(&vars, text, &arena);
}

START_TEST(vars_are_replaced_with_and_without_spaces)
{
    ck_assert_str_eq(expand("<${{ vars.NAME }}|${{vars.NAME}}>"), "<new|new>");
}
END_TEST

START_TEST(vars_unknown_is_empty)
{
    ck_assert_str_eq(expand("a${{ vars.OTHER }}b"), "ab");
}
END_TEST

START_TEST(vars_other_texts_stay)
{
    ck_assert_str_eq(expand("${HOME} ${{ env.X }} ${{ vars. }} ${{ vars.NAME"),
                     "${HOME} ${{ env.X }} ${{ vars. }} ${{ vars.NAME");
}
END_TEST

START_TEST(vars_value_is_not_expanded_again)
{
    static Cordium__Workspace__Spec__Var v = CORDIUM__WORKSPACE__SPEC__VAR__INIT;
    v.name = (char *)"X";
    v.value = (char *)"${{ vars.X }}";
    Cordium__Workspace__Spec__Var *list[] = {&v};
    const struct workspace_vars vars = {list, 1};
    ck_assert_str_eq(workspace_vars_expand(&vars, "${{ vars.X }}", &arena), "${{ vars.X }}");
}
END_TEST

START_TEST(expand_start_config_wins_and_reaches_each_field)
{
    Cordium__Workspace__Spec *m = merge(
        "{image: {registry: {url: '${{ vars.IMAGE }}'}}, vars: [{name: IMAGE, value: t}]}",
        "{vars: [{name: IMAGE, value: w}, {name: B, value: main}],"
        " repository: {url: 'https://x/${{ vars.B }}', cloneOptions: {branch: '${{ vars.B }}'}},"
        " runtime: {envVars: [{key: K, value: '${{ vars.B }}'}],"
        "           tasks: [{name: t, run: 'echo ${{ vars.B }}', workingDir: '/${{ vars.B }}'}]}}");
    Cordium__StartWorkspaceRequest__Config config = CORDIUM__START_WORKSPACE_REQUEST__CONFIG__INIT;
    Cordium__Workspace__Spec__Var v = CORDIUM__WORKSPACE__SPEC__VAR__INIT;
    Cordium__Workspace__Spec__Var *list[] = {&v};
    v.name = (char *)"IMAGE";
    v.value = (char *)"s";
    config.vars = list;
    config.n_vars = 1;
    ck_assert_int_eq(workspace_spec_expand(m, &config, &arena, &err), 0);
    ck_assert_str_eq(m->image->registry->url, "s");
    ck_assert_str_eq(m->repository->url, "https://x/main");
    ck_assert_str_eq(m->repository->clone_options->branch, "main");
    ck_assert_str_eq(m->runtime->env_vars[0]->value, "main");
    ck_assert_str_eq(m->runtime->tasks[0]->run, "echo main");
    ck_assert_str_eq(m->runtime->tasks[0]->working_dir, "/main");
}
END_TEST

START_TEST(image_key_depends_on_the_source_only)
{
    char a[WORKSPACE_IMAGE_KEY_SIZE];
    char b[WORKSPACE_IMAGE_KEY_SIZE];
    char c[WORKSPACE_IMAGE_KEY_SIZE];
    Cordium__Workspace__Spec *one = spec_of("{image: {dockerfile: {inline: FROM x}}}");
    Cordium__Workspace__Spec *two =
        spec_of("{isEphemeral: true, image: {dockerfile: {inline: FROM x}}}");
    Cordium__Workspace__Spec *three = spec_of("{image: {dockerfile: {inline: FROM y}}}");
    ck_assert_int_eq(workspace_image_key(one->image, a, &err), 0);
    ck_assert_int_eq(workspace_image_key(two->image, b, &err), 0);
    ck_assert_int_eq(workspace_image_key(three->image, c, &err), 0);
    ck_assert_str_eq(a, b);
    ck_assert_str_ne(a, c);
    ck_assert_uint_eq(strlen(a), 64);
}
END_TEST

static struct executor_network network_of(const char *yaml)
{
    struct executor_network n;
    ck_assert_msg(!workspace_network(spec_of(yaml)->runtime->network, &arena, &n, &err), "%s",
                  err.text);
    return n;
}

START_TEST(network_deny_without_rules_is_none)
{
    ck_assert_int_eq(network_of("{runtime: {network: {egress: {defaultAction: DENY}}}}").mode,
                     EXECUTOR_NETWORK_NONE);
}
END_TEST

START_TEST(network_unset_allows_public)
{
    struct executor_network n;
    ck_assert_int_eq(workspace_network(NULL, &arena, &n, &err), 0);
    ck_assert_int_eq(n.mode, EXECUTOR_NETWORK_RULES);
    ck_assert(n.default_allow_public);
}
END_TEST

START_TEST(network_rules_are_translated)
{
    struct executor_network n =
        network_of("{runtime: {network: {egress: {defaultAction: DENY, rules: ["
                   "{action: ALLOW, cidrs: ['10.1.2.0/24', '2001:db8::/32'], ports: [443, 80]},"
                   "{action: DENY, cidrs: ['10.1.2.3/32']}]}}}}");
    ck_assert_int_eq(n.mode, EXECUTOR_NETWORK_RULES);
    ck_assert(!n.default_allow_public);
    ck_assert_uint_eq(n.rule_count, 2);
    ck_assert(n.rules[0].allow && !n.rules[1].allow);
    ck_assert_uint_eq(n.rules[0].cidrs[0].prefix_length, 24);
    ck_assert_uint_eq(n.rules[0].cidrs[0].address[0], 10);
    ck_assert_uint_eq(n.rules[0].cidrs[1].family, 6);
    ck_assert_uint_eq(n.rules[0].ports[0], 443);
}
END_TEST

START_TEST(network_bad_cidr_is_refused)
{
    struct executor_network n;
    static const char *const BAD[] = {"10.0.0.0",    "10.0.0.0/33", "x/8",
                                      "10.0.0.0/8x", "/8",          "::/129"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char yaml[160];
        (void)snprintf(yaml, sizeof yaml,
                       "{runtime: {network: {egress: {rules: [{action: ALLOW, cidrs: ['%s']}]}}}}",
                       BAD[i]);
        ck_assert_int_eq(workspace_network(spec_of(yaml)->runtime->network, &arena, &n, &err),
                         -STATUS_INVALID_ARGUMENT);
    }
}
END_TEST

START_TEST(capabilities_none_without_add)
{
    ck_assert(workspace_capabilities(NULL, NULL, NULL) == 0);
    ck_assert(workspace_capabilities(
                  NULL, NULL,
                  spec_of("{runtime: {capabilities: {drop: [NET_RAW]}}}")->runtime->capabilities) ==
              0);
}
END_TEST

START_TEST(capabilities_drop_beats_add_of_any_level)
{
    const Cordium__Workspace__Spec__Runtime__Capabilities *all =
        spec_of("{runtime: {capabilities: {add: [ALL]}}}")->runtime->capabilities;
    const Cordium__Workspace__Spec__Runtime__Capabilities *drop =
        spec_of("{runtime: {capabilities: {add: [NET_RAW], drop: [CHOWN, SYS_ADMIN]}}}")
            ->runtime->capabilities;
    uint64_t mask = workspace_capabilities(drop, all, NULL);
    ck_assert((mask & 1) == 0);
    ck_assert((mask & (UINT64_C(1) << 21)) == 0);
    ck_assert((mask & (UINT64_C(1) << 13)) != 0);
}
END_TEST

START_TEST(limit_is_capped_by_the_host)
{
    struct executor_host_report host = {.ceiling = {.memory_bytes = UINT64_C(512) << 20,
                                                    .disk_bytes = UINT64_C(1000) << 20,
                                                    .cpu_millicores = 2000}};
    struct limit_values v = {4000, 256, 4000};
    workspace_limit_cap(&host, &v);
    ck_assert_uint_eq(v.cpu_millicores, 2000);
    ck_assert_uint_eq(v.memory_megabytes, 256);
    ck_assert_uint_eq(v.storage_megabytes, 1000);
}
END_TEST

Suite *suite_workspace_spec(void)
{
    Suite *s = suite_create("workspace_spec");
    TCase *t = tcase_create("spec");
    tcase_add_checked_fixture(t, open_arena, close_arena);
    tcase_add_test(t, merge_scalar_of_workspace_wins);
    tcase_add_test(t, merge_lists_join_template_first);
    tcase_add_test(t, merge_image_kind_of_workspace_replaces);
    tcase_add_test(t, merge_does_not_change_the_template);
    tcase_add_test(t, vars_are_replaced_with_and_without_spaces);
    tcase_add_test(t, vars_unknown_is_empty);
    tcase_add_test(t, vars_other_texts_stay);
    tcase_add_test(t, vars_value_is_not_expanded_again);
    tcase_add_test(t, expand_start_config_wins_and_reaches_each_field);
    tcase_add_test(t, image_key_depends_on_the_source_only);
    tcase_add_test(t, network_deny_without_rules_is_none);
    tcase_add_test(t, network_unset_allows_public);
    tcase_add_test(t, network_rules_are_translated);
    tcase_add_test(t, network_bad_cidr_is_refused);
    tcase_add_test(t, capabilities_none_without_add);
    tcase_add_test(t, capabilities_drop_beats_add_of_any_level);
    tcase_add_test(t, limit_is_capped_by_the_host);
    suite_add_tcase(s, t);
    return s;
}
