"""Runs by plain HTTPS: POST /v1/run and the calls beside it, as any program would make them."""

import http.client
import json
import os
import ssl
import subprocess


class Failed(Exception):
    """The server refused: HTTP status, code, text."""

    def __init__(self, status, body):
        self.status = status
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        self.code, self.text = answer.get("code", ""), answer.get("message", body[:200])
        super().__init__(f"{self.code or status}: {self.text}")


class Client:
    def __init__(self, env, token=None, access=None):
        self.env = env
        self.host, _, port = env["CORDIUM_SERVER"].partition(":")
        self.port = int(port)
        self.context = ssl.create_default_context(cafile=env["CORDIUM_CA_FILE"])
        self.token = token or env["OCTELIUM_AUTH_TOKEN"]
        self.access = access or self.login()

    def login(self):
        answer = self._post("/octelium.api.main.auth.v1.MainService/AuthenticateWithAuthenticationToken",
                            {"authenticationToken": self.token}, None)
        self.refresh = answer["refreshToken"]
        return answer["accessToken"]

    def logout(self):
        """A User has only so many Sessions."""
        self._post("/octelium.api.main.auth.v1.MainService/Logout", {}, None,
                   {"x-octelium-refresh-token": self.refresh})

    def connection(self):
        return http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=120)

    def _post(self, path, body, access, more=()):
        connection = self.connection()
        headers = {"content-type": "application/json", **dict(more)}
        if access:
            headers["x-octelium-auth"] = access
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise Failed(answer.status, text)
        return json.loads(text or "{}")

    def call(self, path, body):
        return self._post(path, body, self.access)

    def run(self, **request):
        return self.call("/v1/run", request)

    def service(self, method, **request):
        return self.call("/cordium.ext.v1.RunService/" + method, request)

    def begin(self, **request):
        """Sends a Run and gives the connection on which its answer would come."""
        connection = self.connection()
        connection.request("POST", "/v1/run", json.dumps(request),
                           {"content-type": "application/json", "x-octelium-auth": self.access})
        return connection

    def cli(self, *words, stdin=None, token=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OCTELIUM_", "CORDIUM_"))}
        env.update({k: v for k, v in self.env.items() if k != "PATH"})
        if token:
            env["OCTELIUM_AUTH_TOKEN"] = token
            env["OCTELIUM_HOME"] += "-" + token[-12:]
        program = os.path.join(self.env["PATH"].split(":")[0], "cordium")
        return subprocess.run([program, *words], env=env, input=stdin, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL if stdin is None else None, timeout=300)


def read_env(folder):
    import shlex

    env = {}
    with open(os.path.join(folder, "env")) as lines:
        for line in lines:
            for word in shlex.split(line)[1:]:
                name, _, value = word.partition("=")
                env[name] = value
    return env
