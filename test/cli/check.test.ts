// `sluice check`: what it prints, and its exit codes.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { describe, it, type TestContext } from "node:test";
import { runCommand as run } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { authority } from "../kit/servers/tls.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { LIMITED } from "./setup.ts";

/** Port of another server on this machine; of one that is gone again where it is wanted `closed`. */
async function listening(t: TestContext, answer: RequestListener, state = "open"): Promise<number> {
  const server = createServer(answer);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise((closed) => server.close(closed));
  if (state === "closed") await close();
  else t.after(close);
  return port;
}

describe("sluice check", () => {
  it("describes the agent's reply in words: 0 accepted, 1 rejected", async (t) => {
    const { address } = await standalone(t, { policies: { "p.yaml": LIMITED } });
    const ask = ["check", "--address", address, "--header", "X-User=ann"];
    const first = await run(ask);
    assert.equal(first.code, 0, first.err);
    assert.match(
      first.out,
      /^accepted\n {2}rate limiter p\/root\.0 \[http\.request\.header\.x_user:ann\] grants/,
    );
    const second = await run(ask);
    assert.equal(second.code, 1);
    assert.match(
      second.out,
      /^rejected by rate limiter p\/root\.0: too few tokens left \(RATE_LIMITED\); the caller gets HTTP 429 Too Many Requests, retry after \d+ s\n/,
    );
    const keyless = await run(["check", "--address", address]);
    assert.match(keyless.out, /rate limiter p\/root\.0 grants \(key label missing\)\n$/);
    const other = await run(["check", "--address", address, "--control-point", "elsewhere"]);
    assert.match(other.out, /no limiter applies/);
  });

  it("sends the labels and sockets that a service in front and a proxy would send", async (t) => {
    const policy = LIMITED.replaceAll("http.request.header.x_user", "user");
    const { address } = await standalone(t, { policies: { "p.yaml": policy } });
    const ask = ["check", "--address", address, "--label", "user=ann, of é=%"];
    const { out, code, err } = await run([...ask, "--header", "baggage=user=bob,plan=gold"]);
    assert.equal(code, 0, err);
    assert.match(out, /rate limiter p\/root\.0 \[user:ann, of é=%\] grants/);
    // Nothing that a terminal would act on.
    const hostile = await run(["check", "--address", address, "--label", "user=a\u001b[2Jb"]);
    assert.match(hostile.out, /^ {2}label user: a\\u001b\[2Jb\n.*\[user:a\\u001b\[2Jb\] grants/m);

    let sent: unknown;
    const accepted = JSON.stringify({
      check_response: { decision_type: "DECISION_TYPE_ACCEPTED" },
    });
    const port = await listening(t, (request, response) => {
      void textOf(request).then((text) => {
        sent = JSON.parse(text);
        response.end(accepted);
      });
    });
    const asked = async (...flags: string[]) => {
      const { code, err } = await run(["check", "--address", `127.0.0.1:${port}`, ...flags]);
      return code === 64 ? err : sent;
    };
    for (const [text, address, port] of [
      ["10.0.0.7", "10.0.0.7", 0],
      ["10.0.0.7:4000", "10.0.0.7", 4_000],
      ["fd00::7", "fd00::7", 0],
      ["[fd00::7]:4000", "fd00::7", 4_000],
    ] as const) {
      const both = await asked("--source", text, "--destination", text);
      const { source, destination } = both as Record<string, unknown>;
      assert.deepEqual(
        [source, destination],
        [
          { address, port },
          { address, port },
        ],
      );
    }
    for (const text of ["", "shop.example", "10.0.0.7:70000", "10.0.0.7:x"]) {
      const wanted = "wanted an IP address, IPv4:PORT or [IPv6]:PORT";
      assert.equal(
        await asked("--source", text),
        `sluice: --source: ${wanted}, got ${JSON.stringify(text)}\n`,
      );
    }
    for (const [text, got] of [
      ["secret", "one without ="],
      ["=secret", "one without NAME"],
      ["us er=ann", "a NAME that baggage cannot carry"],
    ] as const) {
      const said = await asked("--label", text);
      assert.equal(said, `sluice: --label: wanted NAME=VALUE, got ${got}\n`);
    }
    for (const name of ["http.path", "aperture.source"])
      assert.match(
        String(await asked("--label", `${name}=x`)),
        new RegExp(`^sluice: --label: wanted a name that baggage may set, .*, got ${name}\n$`),
      );
    const twice = await asked("--source", "10.0.0.7", "--source", "10.0.0.8");
    assert.equal(twice, "sluice: --source: wanted it once, got it again\n");
  });

  it("accepts JSON from a file or standard input and prints JSON on request", async (t) => {
    const { address } = await standalone(t, { policies: { "p.yaml": LIMITED } });
    const request = JSON.stringify({ control_point: "ingress" });
    const file = join(folderOf(t, { "request.json": request }), "request.json");
    const fromFile = await run(["check", "--address", address, "--json", file]);
    assert.equal(JSON.parse(fromFile.out).check_response.control_point, "ingress");
    const stdin = (async function* () {
      yield request;
    })();
    const fromInput = await run(["check", "--address", address, "-"], { stdin });
    assert.equal(fromInput.code, 0, fromInput.err);
  });

  it("refuses JSON with members that a check does not have, which an agent would ignore", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const request = JSON.stringify({
      control_point: "ingress",
      lables: {},
      request: { methd: "GET", headers: { any: "name" } },
      source: { adress: "x" },
    });
    const file = join(folderOf(t, { "request.json": request }), "request.json");
    const { code, err } = await run(["check", "--address", address, file]);
    assert.equal(code, 64);
    const got =
      '"lables", "source.adress" (did you mean address?), "request.methd" (did you mean method?)';
    assert.equal(err, `sluice: check: ${file}: wanted members of a CheckHTTPRequest, got ${got}\n`);
  });

  it("distinguishes a request that the agent refuses from an agent that is unreachable", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const bad = await run(["check", "--address", address, "--control-point", ""]);
    assert.equal(bad.code, 64);
    assert.equal(
      bad.err,
      `sluice: the agent at http://${address} answered 400: missing control-point; name one with --control-point\n`,
    );
    const free = await listening(t, () => undefined, "closed");
    for (const gone of [`127.0.0.1:${free}`, `:${free}`, `http://127.0.0.1:${free}/`]) {
      const { code, err } = await run(["check", "--address", gone]);
      assert.equal(code, 69);
      assert.match(
        err,
        /^sluice: no agent answers at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\); start one with [^\n]*--address\n$/,
      );
    }
  });

  it("names the true fault also of ports that browsers and fetch block", async () => {
    for (const port of [1, 6000]) {
      const { code, err } = await run(["check", "--address", `127.0.0.1:${port}`]);
      assert.equal(code, 69);
      assert.match(err, /^sluice: no agent answers at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\)/);
    }
  });

  it("asks whether a server that knows no checks is an agent", async (t) => {
    const port = await listening(t, (_request, response) => {
      response.writeHead(404, { "content-type": "application/json", connection: "close" });
      response.end('{"code":5,"message":"Not Found"}');
    });
    const { code, err } = await run(["check", "--address", `127.0.0.1:${port}`]);
    assert.equal(code, 64);
    assert.match(err, /answered 404: Not Found; is it an agent\?\n$/);
  });

  it("distinguishes an agent from another server", async (t) => {
    const answers = [
      [501, "<p>no</p>"],
      [200, "hello"],
      [200, "{}"],
    ] as const;
    for (const [status, body] of answers) {
      const port = await listening(t, (_request, response) => {
        response.writeHead(status, { connection: "close" }).end(body);
      });
      const { code, err } = await run(["check", "--address", `127.0.0.1:${port}`]);
      assert.equal(code, 69);
      assert.match(
        err,
        new RegExp(`^sluice: no agent answers at [^\\n]*HTTP ${status}[^\\n]*\\n$`),
      );
    }
  });

  it("refuses arguments that it would otherwise ignore or misread, in one line", async () => {
    const refused: Readonly<Record<string, RegExp>> = {
      "--address=": /--address: wanted HOST:PORT.*, got something else/,
      "--address=127.0.0.1:99999": /--address: wanted HOST:PORT.*, got a port above 65535/,
      "--address": /--address: wanted a value, got none/,
      "--path -x": /--path: wanted a value, got an argument that begins with -; write --path=VALUE/,
      "--json=1": /--json: wanted no value, got one/,
      "--address=ftp://x": /--address: wanted HOST:PORT.*, got another scheme/,
      "--address=127.0.0.1:1/v1":
        /--address: wanted HOST:PORT.*, got one with a path, query or fragment/,
      "--address=127.0.0.1:1?x":
        /--address: wanted HOST:PORT.*, got one with a path, query or fragment/,
      "--address=u@h:1": /--address: wanted HOST:PORT.*, got one with a user name or password/,
      "--header=foo": /--header: wanted NAME=VALUE, got one without =/,
      "--header==foo": /--header: wanted NAME=VALUE, got one without NAME/,
      "--header=x@user=ann": /--header: wanted NAME=VALUE, got a NAME that no header can have/,
      "a b": /wanted one FILE, got 2/,
      "--path=/x --ramp-mode -":
        /wanted FILE or flags of a request, got FILE and --path, --ramp-mode/,
    };
    for (const [line, said] of Object.entries(refused)) {
      const { code, err } = await run(["check", ...line.split(" ")]);
      assert.equal(code, 64, line);
      assert.match(err, said);
      assert.match(err, /^sluice: [^\n]+\n$/);
    }
  });

  it("repeats nothing of a header or an address that may be a secret", async () => {
    const flags = [
      "--header=authorization Bearer s3cret",
      "--header==s3cret",
      "--address=http://u:s3cret@h/x",
      "--address=http://u:s3cret@127.0.0.1:1",
      "--address=u:s3cret@h",
      "--address=http://u:s3cret@h:nan",
      "--address=ftp://u:s3cret@h",
      "--address=127.0.0.1:1/?key=s3cret",
    ];
    for (const flag of flags) {
      const { code, out, err } = await run(["check", flag]);
      assert.deepEqual([code, out], [64, ""], flag);
      assert.doesNotMatch(err, /s3cret/);
    }
  });

  it("asks the agent that the same variables configure, unless --address is given", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const port = address.slice(address.lastIndexOf(":"));
    for (const addr of [address, port, `0.0.0.0${port}`]) {
      const env = { SVC_AGENT_SERVER_LISTENER_ADDR: addr };
      const { code, out, err } = await run(["check"], { env });
      assert.equal(code, 0, err);
      assert.match(out, /^accepted\n/);
    }
    const elsewhere = { SVC_AGENT_SERVER_LISTENER_ADDR: "unix:/nowhere/a.sock" };
    const socket = await run(["check"], { env: elsewhere });
    assert.equal(socket.code, 69);
    assert.match(socket.err, /no agent answers at unix:\/nowhere\/a\.sock \(ENOENT\)/);
    const explicit = await run(["check", "--address", address], { env: elsewhere });
    assert.equal(explicit.code, 0, explicit.err);
    const free = await listening(t, () => undefined, "closed");
    const tls = {
      SVC_AGENT_SERVER_LISTENER_ADDR: `:${free}`,
      SVC_AGENT_SERVER_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
      SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
    };
    const { code, err } = await run(["check"], { env: tls });
    assert.equal(code, 69);
    assert.ok(err.includes(`no agent answers at https://127.0.0.1:${free} `), err);
  });

  it("asks an agent at a Unix socket, named or configured", async (t) => {
    const addr = `unix:${join(folderOf(t, {}), "sluice.sock")}`;
    const env = { SVC_AGENT_SERVER_LISTENER_ADDR: addr };
    await standalone(t, { policies: { "p.yaml": LIMITED }, env });
    const named = await run(["check", "--address", addr, "--header", "X-User=ann"]);
    assert.match(named.out, /^accepted\n {2}rate limiter p/, named.err);
    const configured = await run(["check", "--header", "X-User=ann"], { env });
    assert.match(configured.out, /^rejected by rate limiter p/, configured.err);
    for (const bad of ["unix:", "unix:relative"])
      assert.match(
        (await run(["check", "--address", bad])).err,
        /wanted HOST:PORT.* or unix:\/PATH, got/,
      );
  });

  it("says so when the agent speaks TLS and was asked without, or the other way round", async (t) => {
    const plain = await standalone(t, { policies: {} });
    const asked = await run(["check", "--address", `https://${plain.address}`]);
    assert.equal(asked.code, 69);
    assert.match(asked.err, /no agent answers at https:.*it speaks HTTP without TLS: ask http:/);

    const ca = authority(folderOf(t, {}), "authority");
    const { certFile, keyFile } = ca.issue("server");
    const tls = {
      SVC_AGENT_SERVER_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_TLS_CERT_FILE: certFile,
      SVC_AGENT_SERVER_TLS_KEY_FILE: keyFile,
    };
    const mutual = { ...tls, SVC_AGENT_SERVER_TLS_CLIENT_CA_FILE: ca.certFile };
    for (const env of [tls, mutual]) {
      const { address } = await standalone(t, { policies: {}, env });
      assert.match(
        (await run(["check", "--address", address])).err,
        /answered 400: this port speaks TLS; ask https:\/\/\n$/,
      );
      const untrusted = await run(["check", "--address", `https://${address}`]);
      assert.equal(untrusted.code, 69);
      assert.match(
        untrusted.err,
        /^sluice: https:[^ ]* is not trusted \([A-Z_]+\); name the authority of its certificate with --ca\n$/,
      );
    }
    const { address } = await standalone(t, { policies: {}, env: mutual });
    const files = ["--ca", ca.certFile, "--cert", certFile, "--key", keyFile];
    for (const named of [address, `https://${address}`])
      assert.match((await run(["check", "--address", named, ...files])).out, /^accepted\n/);
    const { err: half } = await run(["check", "--address", address, "--cert", certFile]);
    assert.match(half, /wanted --cert and --key together, got one/);
    const foreign = createTlsServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
    foreign.on("request", (_request, response) => void response.end("hello"));
    t.after(() => foreign.close());
    foreign.listen(0, "127.0.0.1");
    await once(foreign, "listening");
    const { port } = foreign.address() as AddressInfo;
    const { code, err } = await run(["check", "--address", `127.0.0.1:${port}`]);
    assert.equal(code, 69);
    assert.match(err, /no agent answers at http:.*it speaks TLS: ask https:/);
    const other = await listening(t, (_request, response) => void response.end("hello"));
    const hello = await run(["check", "--address", `http://127.0.0.1:${other}`]);
    assert.match(hello.err, /HTTP 200 to POST .*, unlike an agent/);
  });
});

it("says of the sample policies what the README shows", async (t) => {
  const root = join(import.meta.dirname, "../..");
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, args = "", said] = /sluice -- check ([^\n]+)\n(accepted\n[^`]+)```/.exec(readme) ?? [];
  const folder = join(root, "deploy/policies");
  const policies = Object.fromEntries(
    readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), "utf8")]),
  );
  const { address } = await standalone(t, { policies });
  const { out } = await run(["check", "--address", address, ...args.split(" ")]);
  // There the user had asked once before.
  const left = / \d left of/g;
  assert.equal(out.replaceAll(left, " N left of"), said?.replaceAll(left, " N left of"));
});
