// The command line as people use it: what is printed on which stream, and the exit codes.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  accessSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { runCommand as run } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { child } from "../kit/servers/child.ts";
import { authority } from "../kit/servers/tls.ts";
import { standalone, standaloneProcess } from "../kit/sluice/standalone.ts";

const SLUICE = join(import.meta.dirname, "../../src/cli/sluice.js");

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

/** A line of a stack, on its own or inside a line of the log. */
const STACK = /\bat (async )?[\w.#<> ]*\(?(file|node):/;

const LIMITED = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 1 } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 60s, limit_by_label_key: http.request.header.x_user }
`;

/** Prints which of Node's own modules a process loaded. */
const LOADED =
  "data:text/javascript,process.on('exit',()=>console.log(process.moduleLoadList.join()))";

describe("sluice", () => {
  it("runs from the second start on without Node's TypeScript compiler, which takes 20 MB", (t) => {
    const NODE_COMPILE_CACHE = folderOf(t, {});
    const [first, second] = [0, 1].map(() => {
      const args = ["--import", LOADED, SLUICE, "version"];
      return execFileSync(process.execPath, args, { env: { ...process.env, NODE_COMPILE_CACHE } });
    });
    const compiler = "NativeModule internal/deps/amaro/dist/index";
    assert.ok(String(first).includes(compiler));
    assert.ok(!String(second).includes(compiler));
  });

  it("without a command, or asked for help, lists the commands", async () => {
    const again = [
      ["help", "help"],
      ["help", "--help"],
      ["-h", "-h"],
      ["--help", "help", "-h"],
    ];
    for (const args of [[], ["help"], ["--help"], ...again]) {
      const { code, out } = await run(args);
      assert.equal(code, 0);
      assert.match(out, /sluice standalone --policies DIR/);
    }
  });

  it("prints the usage of a command with every flag", async () => {
    const commands = {
      standalone: ["--policies DIR", "--config-path PATH"],
      agent: ["--config-path PATH"],
      controller: ["--policies DIR", "--config-path PATH"],
      check: ["--address", "--control-point", "--header", "--ramp-mode", "--expect-end", "--json"],
      "policy check": ["--json", "--strict", "--label NAME", "--queries WHO", "FILE"],
      "policy expand": ["--json", "FILE"],
      "policy graph": ["--format FORMAT", "--open", "--depth N", "FILE"],
      "agent config": ["--config-path", "--json"],
      "controller config": ["--config-path", "--json"],
      completion: ["--help"],
      version: ["--json", "--help"],
    };
    for (const [name, flags] of Object.entries(commands)) {
      for (const help of ["--help", "-h"]) {
        const { code, out, err } = await run([...name.split(" "), help]);
        assert.deepEqual([code, err], [0, ""], name);
        assert.ok(out.startsWith(`sluice ${name}`), out);
        for (const flag of flags) assert.ok(out.includes(`  ${flag}`), `${name}: ${flag}`);
      }
    }
    const { code, out } = await run(["policy", "--help"]);
    assert.equal(code, 0);
    assert.match(out, /^sluice policy check \[--json\] \[--strict\] FILE/);
    const unknown = await run(["polise", "--help"]);
    assert.equal(unknown.code, 64);
  });

  it("accepts _ for - in flags and leaves values alone", async (t) => {
    const file = join(
      folderOf(t, { "a_b.yaml": "agent_info: { agent_group: blue }\n" }),
      "a_b.yaml",
    );
    for (const flag of [
      [`--config_path=${file}`],
      ["--config_path", file],
      ["--config-path", file],
    ]) {
      const { code, out, err } = await run(["agent", "config", ...flag]);
      assert.equal(code, 0, err);
      assert.match(out, /blue/);
      assert.match(out, /a_b\.yaml/);
    }
  });

  it("refuses unknown commands and flags with code 64, one line and a suggestion", async () => {
    const refused: Readonly<Record<string, RegExp>> = {
      sdandalone: /no such command, "sdandalone"; did you mean standalone\?/,
      policy:
        /no such command, "policy"; did you mean policy check, policy expand, policy graph, policy apply, policy list, policy get, policy delete\?/,
      "policy chekc": /did you mean policy check, /,
      "polcy check": /did you mean policy check\?/,
      "check --adress x": /unknown flag "--adress"; did you mean --address\?/,
      "check -a": /unknown flag "-a"; --help lists/,
      "standalone --policy x": /unknown flag "--policy"; did you mean --policies\?/,
      "policy graph --depth -1 x":
        /--depth: wanted a value, got an argument that begins with -; write --depth=VALUE/,
      "version now": /wanted only flags, got "now"/,
    };
    for (const [line, said] of Object.entries(refused)) {
      const { code, out, err } = await run(line.split(" "));
      assert.deepEqual([code, out], [64, ""], line);
      assert.match(err, said);
      assert.match(err, /^sluice: [^\n]+\n$/);
    }
  });

  it("accepts help before the command, and --version", async () => {
    const { code, out } = await run(["help", "policy", "check"]);
    assert.equal(code, 0);
    assert.match(out, /^sluice policy check/);
    for (const flag of ["--version", "-v"]) assert.match((await run([flag])).out, /^sluice \d/);
    const facts = JSON.parse((await run(["version", "--json"])).out);
    assert.equal(facts.node, process.versions.node);
    assert.deepEqual(Object.keys(facts), ["version", "node", "platform", "arch"]);
  });
});

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

  it("distinguishes a request that the agent refuses from an agent that is unreachable", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const bad = await run(["check", "--address", address, "--control-point", ""]);
    assert.equal(bad.code, 64);
    assert.equal(
      bad.err,
      `sluice: the agent at http://${address} answered 400: missing control-point\n`,
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
      assert.match((await run(["check", "--address", address])).err, /this port speaks TLS\n$/);
    }
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

describe("sluice policy check", () => {
  it("accepts good documents with 0 and refuses bad ones with 1, all findings at once", async (t) => {
    const folder = folderOf(t, {
      "good.yaml": LIMITED,
      "bad.yaml": LIMITED.replace("60s", "1m").replace("selectors", "selector"),
    });
    const good = await run(["policy", "check", join(folder, "good.yaml")]);
    assert.equal(good.code, 0, good.err);
    assert.match(
      good.out,
      /policy good \([0-9a-f]{32}\): 6 components in the circuit, 1 for agents/,
    );
    const bad = await run(["policy", "check", join(folder, "good.yaml"), join(folder, "bad.yaml")]);
    assert.equal(bad.code, 1);
    assert.match(bad.err, /bad\.yaml:5:11: .*selector/);
    assert.match(bad.err, /bad\.yaml:9:\d+: .*interval/);
  });

  it("names a file that cannot be read", async (t) => {
    const none = join(folderOf(t), "none.yaml");
    for (const args of [
      ["policy", "check", none],
      ["check", none],
    ]) {
      const { code, err } = await run(args);
      assert.equal(code, 64);
      assert.match(
        err,
        /^sluice: .*none\.yaml: wanted a file that can be read, got ENOENT[^\n]*\n$/,
      );
    }
  });

  it("names every file that cannot be read, with its control characters escaped", async (t) => {
    const folder = folderOf(t, { "good.yaml": LIMITED, "binary.yaml": "GIF89a\0\0" });
    const odd = "red\u001b[31m\nsluice: all is well\u202e.yaml";
    for (const name of ["gone.yaml", "good.dynamic.yaml", odd])
      symlinkSync("away", join(folder, name));
    const { code, out, err } = await run(["policy", "check", join(folder, odd), folder]);
    assert.deepEqual([code, out], [64, ""]);
    const lines = err.trimEnd().replace("sluice: ", "").split("\n");
    assert.deepEqual(
      lines.map((line) => line.slice(folder.length + 1).replace(/: wanted .*/, "")),
      [
        "red\\u001b[31m\\u000asluice: all is well\\u202e.yaml",
        "binary.yaml",
        "gone.yaml",
        "good.dynamic.yaml",
      ],
    );
  });

  it("accepts a directory for its documents, and - for standard input", async (t) => {
    const folder = folderOf(t, {
      "a.yaml": LIMITED,
      "b.yml": LIMITED,
      "b.dynamic.yaml": "x: 1\n",
      ".hidden.yaml": "no policy",
      "notes.txt": "no policy",
    });
    const whole = await run(["policy", "check", folder]);
    assert.equal(whole.code, 0, whole.err);
    const names = [...whole.out.matchAll(/policy (\w+) \(/g)].map(([, name]) => name);
    assert.deepEqual(names, ["a", "b"]);
    const stdin = (async function* () {
      yield LIMITED.replace("60s", "1m");
    })();
    const piped = await run(["policy", "check", "-"], { stdin });
    assert.equal(piped.code, 1);
    assert.match(piped.err, /^stdin:9:\d+: /);
  });

  it("reads standard input once, and refuses a second -", async (t) => {
    const scenario = join(folderOf(t, { "s.yaml": "" }), "s.yaml");
    for (const command of [
      ["policy", "check"],
      ["policy", "expand"],
      ["policy", "graph"],
      ["simulate", "--scenario", scenario],
    ]) {
      const stdin = (async function* () {
        yield LIMITED;
      })();
      const { code, out, err } = await run([...command, "-", "-"], { stdin });
      assert.deepEqual([code, out], [64, ""], command.join(" "));
      assert.match(err, /^sluice: [a-z ]+: wanted - at most once, got it 2 times\n$/);
    }
  });

  it("names in one line, with code 64, input that cannot be checked", async (t) => {
    const folder = folderOf(t, { "binary.yaml": "GIF89a\0\0" });
    mkdirSync(join(folder, "empty"));
    symlinkSync("loop.yaml", join(folder, "loop.yaml"));
    const unusable: Readonly<Record<string, RegExp>> = {
      empty: /empty: wanted at least one policy \(\*\.yaml, \*\.yml, \*\.json\).*, got none/,
      "loop.yaml": /loop\.yaml: wanted a file that can be read, got ELOOP/,
      "binary.yaml": /binary\.yaml: wanted a policy as text, got a binary file/,
      none: /none: wanted a file that can be read, got ENOENT/,
    };
    for (const [name, said] of Object.entries(unusable)) {
      for (const command of [
        ["policy", "check"],
        ["policy", "expand"],
        ["policy", "graph"],
      ]) {
        const { code, out, err } = await run([...command, join(folder, name)]);
        assert.deepEqual([code, out], [64, ""], name);
        assert.match(err, said);
        assert.match(err, /^sluice: [^\n]+\n$/);
      }
    }
    const blank = join(folderOf(t, { "blank.yaml": "# nothing\n" }), "blank.yaml");
    const { code, err } = await run(["policy", "check", blank]);
    assert.equal(code, 1);
    assert.match(err, /blank\.yaml:1:1: wanted a policy, got no document\nnot valid: 1 fault\n$/);
  });

  it("prints no control characters of a file that is not a policy", async (t) => {
    const folder = folderOf(t);
    const every = Uint8Array.from({ length: 255 }, (_, byte) => byte + 1);
    writeFileSync(join(folder, "binary.yaml"), every);
    const text = 'circuit: { components: [], "\\e[31mred\\x07\\u202e\\u2028": 1 }\n';
    writeFileSync(join(folder, "escaped.yaml"), text);
    for (const [name, exitCode] of [
      ["binary.yaml", 64],
      ["escaped.yaml", 1],
    ] as const) {
      const { code, err, out } = await run(["policy", "check", join(folder, name)]);
      assert.deepEqual([code, out], [exitCode, ""]);
      assert.doesNotMatch(err, /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u);
    }
    const { err } = await run(["policy", "check", join(folder, "escaped.yaml")]);
    assert.match(err, /\\u001b\[31mred\\u0007\\u202e\\u2028/);
  });
});

for (const [process, other] of [
  ["agent", "a controller"],
  ["controller", "its agents"],
] as const) {
  describe(`sluice ${process}`, () => {
    it("names the store that it lacks, and what to run instead, with code 64", async () => {
      const { code, out, err } = await run([process]);
      assert.deepEqual([code, out], [64, ""]);
      assert.match(err, new RegExp(`^sluice: the ${process} shares its store with ${other}: `));
      assert.match(err, /etcd\.endpoints, got none; `sluice standalone /);
      assert.equal(err.trimEnd().split("\n").length, 1);
    });

    it("reads its own configuration first", async () => {
      const name = `SVC_${process.toUpperCase()}_LOG_LEVEL`;
      const { code, err } = await run([process], { env: { [name]: "loud" } });
      assert.equal(code, 64);
      assert.match(err, new RegExp(`${name}.*log\\.level|log\\.level.*${name}`));
    });

    it("has help that lists its configuration command too", async () => {
      const { code, out } = await run([process, "--help"]);
      assert.equal(code, 0);
      assert.match(out, new RegExp(`^sluice ${process} config `, "m"));
    });
  });
}

describe("sluice agent config", () => {
  it("prints where each value came from, and no secret", async () => {
    const env = {
      SVC_AGENT_AGENT_INFO_AGENT_GROUP: "blue",
      SVC_AGENT_ETCD_USERNAME: "ann",
      SVC_AGENT_ETCD_PASSWORD: "hunter2",
    };
    for (const args of [
      ["agent", "config"],
      ["agent", "config", "--json"],
    ]) {
      const { code, out } = await run(args, { env });
      assert.equal(code, 0);
      assert.match(out, /blue/);
      assert.match(out, /SVC_AGENT_AGENT_INFO_AGENT_GROUP/);
      assert.doesNotMatch(out, /hunter2/);
      assert.match(out, /\*\*\*/);
    }
    const controller = await run(["controller", "config"], {
      env: { SVC_CONTROLLER_LOG_LEVEL: "debug" },
    });
    assert.match(controller.out, /SVC_CONTROLLER_LOG_LEVEL/);
  });
});

describe("the real command", () => {
  const start = (
    t: TestContext,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ) =>
    child(t, process.execPath, [SLUICE, ...args], {
      cwd: folderOf(t),
      env: { PATH: process.env["PATH"], ...env },
    });

  it("ends with 64 and every fault of both trees when the configuration cannot be used", async (t) => {
    const sluice = start(t, ["standalone", "--policies", folderOf(t)], {
      SVC_AGENT_SERVER_LISTENER_ADR: ":1",
      SVC_AGENT_SERVER_HTTP_READ_TIMEOUT: "soon",
      SVC_CONTROLLER_LOG_LEVEL: "loud",
    });
    assert.equal(await sluice.ended, 64);
    assert.match(sluice.err(), /SVC_AGENT_SERVER_LISTENER_ADR/);
    assert.match(sluice.err(), /SVC_AGENT_SERVER_LISTENER_ADDR/, "the name that was meant");
    assert.match(sluice.err(), /read_timeout/);
    assert.match(sluice.err(), /log\.level/);
  });

  it("ends with 64 and every finding when a policy cannot be used at the start", async (t) => {
    const policies = folderOf(t);
    writeFileSync(
      join(policies, "p.yaml"),
      LIMITED.replace("60s", "1m").replace("selectors", "selector"),
    );
    const sluice = start(t, ["standalone", "--policies", policies]);
    assert.equal(await sluice.ended, 64);
    assert.match(sluice.err(), /p\.yaml:5:11/);
    assert.match(sluice.err(), /p\.yaml:9:/);
  });

  it("drains on SIGTERM, logs it to the last line, and ends with 0", async (t) => {
    const { child: sluice } = await standaloneProcess(t, { policies: {} });
    sluice.kill("SIGTERM");
    assert.equal(await sluice.ended, 0);
    const said = sluice.err().trimEnd().split("\n").slice(-2);
    assert.deepEqual(
      said.map((line) => JSON.parse(line).message),
      ["SIGTERM: draining", "drained"],
    );
  });

  it("keeps its exit code and reports nothing when its output is not read to the end", async (t) => {
    const sluice = start(t, ["agent", "config"]);
    sluice.process.stdout?.destroy();
    assert.equal(await sluice.ended, 0, sluice.err());
    assert.equal(sluice.err(), "");
  });

  it("ends with 69 and names the address when the port is taken", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const sluice = start(t, ["standalone", "--policies", folderOf(t)], {
      SVC_AGENT_SERVER_LISTENER_ADDR: address,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
      SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
      SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
    });
    assert.equal(await sluice.ended, 69);
    const taken = `server.listener.addr: the address is in use (${address})`;
    assert.ok(sluice.err().includes(taken), sluice.err());
    assert.doesNotMatch(sluice.err(), STACK);
  });

  const loopback = {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
    SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
  };
  const unusable: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    "a certificate": [
      {
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.cert_file: \/nope\/tls\.crt: wanted a file that can be read, got ENOENT/,
    ],
    "a certificate towards another server": [
      {
        SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1",
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.cert_file: \/nope\/tls\.crt: wanted a file that can be read, got ENOENT/,
    ],
    "a socket's path": [
      { SVC_AGENT_SERVER_LISTENER_ADDR: "unix:/nope/port.sock" },
      /server\.listener\.addr: (ENOENT|EACCES)/,
    ],
    "a log file": [
      { SVC_AGENT_LOG_WRITERS: '[{"file":"/dev/null/a.log"}]' },
      /log\.writers: wanted .* \/dev\/null\/a\.log, got E/,
    ],
  };
  for (const [what, [env, said]] of Object.entries(unusable)) {
    it(`ends with 64, one line and no stack for ${what} that cannot be used`, async (t) => {
      const sluice = start(t, ["standalone", "--policies", folderOf(t)], { ...loopback, ...env });
      assert.equal(await sluice.ended, 64, sluice.err());
      const last = sluice
        .err()
        .trimEnd()
        .split("\n")
        .filter((line) => /cannot start/.test(line));
      assert.equal(last.length, 1, sluice.err());
      assert.match(last[0] ?? "", said);
      assert.doesNotMatch(sluice.err(), STACK);
    });
  }

  it("ends with 64 and names --policies, or the document, that cannot be read", async (t) => {
    const none = start(t, ["standalone", "--policies", "/nope"], loopback);
    assert.equal(await none.ended, 64);
    assert.match(none.err(), /^sluice: --policies: wanted .* at \/nope, got ENOENT: [^\n]*\n$/);
    const policies = folderOf(t);
    mkdirSync(join(policies, "b.yaml"));
    const odd = start(t, ["standalone", "--policies", policies], loopback);
    assert.equal(await odd.ended, 64);
    assert.match(odd.err(), /cannot start: .*b\.yaml: wanted a regular file, got a directory/);
    assert.doesNotMatch(odd.err(), STACK);
  });
});

describe("the installed command", () => {
  const root = join(import.meta.dirname, "../..");
  const { bin, engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

  const under = (t: TestContext, node: string) => {
    const faked = JSON.stringify({ ...process.versions, node });
    const versions = `Object.defineProperty(process, "versions", { value: ${faked} })`;
    const preload = `data:text/javascript,${encodeURIComponent(versions)}`;
    return child(t, process.execPath, ["--import", preload, join(root, bin.sluice), "version"]);
  };

  it("runs under each Node that `engines` names", async (t) => {
    assert.equal(engines.node, "^24.15 || >=26");
    accessSync(join(root, bin.sluice), constants.X_OK);
    for (const node of ["24.15.0", "26.0.0", "27.1.0"]) {
      const sluice = under(t, node);
      assert.equal(await sluice.ended, 0, sluice.err());
      assert.equal(sluice.out(), `sluice 0.1.0, Node ${node}\n`);
    }
  });

  it("names in one line, under any other Node, the version that is needed and how to get it", async (t) => {
    for (const node of ["20.20.2", "24.14.9", "25.9.0"]) {
      const sluice = under(t, node);
      assert.equal(await sluice.ended, 69);
      assert.match(sluice.err(), /^sluice: wanted Node 24\.15 [^\n]*26[^\n]*npm ci[^\n]*\n$/);
      assert.ok(sluice.err().includes(node));
    }
  });
});
