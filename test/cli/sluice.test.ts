// The command line as a person uses it: what is said where, and with which exit code.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
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
    assert.match(good.out, /policy good \([0-9a-f]{32}\): 1 rules/);
    const bad = await run(["policy", "check", join(folder, "good.yaml"), join(folder, "bad.yaml")]);
    assert.equal(bad.code, 1);
    assert.match(bad.err, /bad\.yaml:5:11: .*selector/);
    assert.match(bad.err, /bad\.yaml:9:\d+: .*interval/);
  });

  it("says which file cannot be read", async (t) => {
    const { code, err } = await run(["policy", "check", join(folderOf(t), "none.yaml")]);
    assert.equal(code, 70);
    assert.match(err, /none\.yaml cannot be read/);
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
    assert.match(sluice.err(), /cannot start/);
  });
});
