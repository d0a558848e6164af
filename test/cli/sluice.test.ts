// The command line as a person uses it: what is said where, and with which exit code.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { Terminal } from "../../src/cli/command.ts";
import { sluice } from "../../src/cli/sluice.ts";
import { child } from "../kit/child.ts";
import { folderOf } from "../kit/folder.ts";
import { standalone, standaloneProcess } from "../kit/standalone.ts";

const SLUICE = join(import.meta.dirname, "../../src/cli/sluice.ts");

async function run(args: readonly string[], around: Partial<Terminal> = {}) {
  let out = "";
  let err = "";
  const code = await sluice(args, {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    stdin: (async function* () {})(),
    ...around,
  });
  return { code, out, err };
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

describe("sluice", () => {
  it("without a command, or asked for help, says what there is", async () => {
    for (const args of [[], ["help"], ["--help"]]) {
      const { code, out } = await run(args);
      assert.equal(code, 0);
      assert.match(out, /sluice standalone --policies DIR/);
    }
  });

  it("prints the usage of the command whose help is asked for, every flag with it", async () => {
    const commands = {
      standalone: ["--policies DIR", "--config-path PATH"],
      check: ["--address", "--control-point", "--header", "--ramp-mode", "--expect-end", "--json"],
      "policy check": ["--json", "--queries WHO", "FILE"],
      "policy expand": ["--json", "FILE"],
      "policy graph": ["--format FORMAT", "--open", "--depth N", "FILE"],
      "agent config": ["--config-path", "--json"],
      "controller config": ["--config-path", "--json"],
      version: ["--help"],
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
    assert.match(out, /^sluice policy check \[--json\] FILE/);
    const unknown = await run(["polise", "--help"]);
    assert.equal(unknown.code, 64);
  });

  it("takes flags with _ for - and leaves values alone", async (t) => {
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

  it("refuses what it does not know with code 64 and the usage", async () => {
    const { code, err } = await run(["sdandalone"]);
    assert.equal(code, 64);
    assert.match(err, /no such command/);
    const option = await run(["check", "--adress", "x"]);
    assert.equal(option.code, 64);
    assert.match(option.err, /adress/);
  });
});

describe("sluice check", () => {
  it("says in words what the agent answered: 0 accepted, 1 rejected", async (t) => {
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
    assert.match(second.out, /^rejected: RATE_LIMITED, HTTP 429, retry after \d+ s\n/);
    const other = await run(["check", "--address", address, "--control-point", "elsewhere"]);
    assert.match(other.out, /no limiter spoke/);
  });

  it("takes JSON from a file or standard input and prints JSON when asked", async (t) => {
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

  it("tells a request that the agent refuses from an agent that is not there", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const bad = await run(["check", "--address", address, "--control-point", ""]);
    assert.equal(bad.code, 64);
    assert.match(bad.err, /missing control-point/);
    const gone = await run(["check", "--address", "127.0.0.1:9"]);
    assert.equal(gone.code, 70);
    assert.match(gone.err, /no agent answers/);
  });
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

  it("says which file cannot be read", async (t) => {
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

  it("prints no control character of a file that is no policy", async (t) => {
    const folder = folderOf(t);
    const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    writeFileSync(join(folder, "binary.yaml"), every);
    const text = 'circuit: { components: [], "\\e[31mred\\x07\\u202e\\u2028": 1 }\n';
    writeFileSync(join(folder, "escaped.yaml"), text);
    for (const name of ["binary.yaml", "escaped.yaml"]) {
      const { code, err, out } = await run(["policy", "check", join(folder, name)]);
      assert.deepEqual([code, out], [1, ""]);
      assert.doesNotMatch(err, /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u);
    }
    const { err } = await run(["policy", "check", join(folder, "escaped.yaml")]);
    assert.match(err, /\\u001b\[31mred\\u0007\\u202e\\u2028/);
  });
});

describe("sluice agent config", () => {
  it("prints where each value came from, and no secret", async () => {
    const env = {
      SVC_AGENT_AGENT_INFO_AGENT_GROUP: "blue",
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

  it("drains on SIGTERM, says so to the last word, and ends with 0", async (t) => {
    const { child: sluice } = await standaloneProcess(t, { policies: {} });
    sluice.kill("SIGTERM");
    assert.equal(await sluice.ended, 0);
    const said = sluice.err().trimEnd().split("\n").slice(-2);
    assert.deepEqual(
      said.map((line) => JSON.parse(line).message),
      ["SIGTERM: draining", "drained"],
    );
  });

  it("ends with 70 when the port is taken, never with 0", async (t) => {
    const { address } = await standalone(t, { policies: {} });
    const sluice = start(t, ["standalone", "--policies", folderOf(t)], {
      SVC_AGENT_SERVER_LISTENER_ADDR: address,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    });
    assert.equal(await sluice.ended, 70);
    assert.match(sluice.err(), /cannot start: .*server\.listener\.addr: the address is in use/);
    assert.doesNotMatch(sluice.err(), STACK);
  });

  const loopback = {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
  };
  const unusable: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    "a certificate": [
      {
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.(cert|key)_file: wanted .* \/nope\/tls\.(crt|key), got ENOENT/,
    ],
    "a certificate towards another server": [
      {
        SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1",
        SVC_AGENT_SERVER_TLS_ENABLED: "true",
        SVC_AGENT_SERVER_TLS_CERT_FILE: "/nope/tls.crt",
        SVC_AGENT_SERVER_TLS_KEY_FILE: "/nope/tls.key",
      },
      /server\.tls\.(cert|key)_file: wanted .* \/nope\/tls\.(crt|key), got ENOENT/,
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
