// `sluice simulate` as people use it: what is printed on which stream, what is drawn, and the exit codes.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { runCommand } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { limiterPolicy } from "../kit/messages/policy.ts";

const ROOT = join(import.meta.dirname, "../..");

function run(...args: readonly string[]) {
  return runCommand(["simulate", ...args]);
}

const POLICY = `circuit:
  evaluation_interval: 1s
  components:
    - query: { promql: { query_string: level, evaluation_interval: 1s, out_ports: { output: { signal_name: LEVEL } } } }
`;
const SCENARIO = `duration: 60s
services: [{ name: s, control_point: p, arrivals: uniform, rate: 20, servers: 2, service_time: { constant: 5ms } }]
series: [{ query: level, recording: { file: level.csv } }]
expect:
  - { name: quick, latency: { percentile: 50, below: 10ms } }
  - { range: { signal: LEVEL, at_most: 4 } }
plot: [{ title: levels, series: [LEVEL, s.offered] }]
`;

function files(t: TestContext, { policy = POLICY, scenario = SCENARIO } = {}) {
  const folder = folderOf(t);
  const [level, scene] = [join(folder, "level.yaml"), join(folder, "scene.yaml")];
  writeFileSync(level, policy);
  writeFileSync(scene, scenario);
  writeFileSync(join(folder, "level.csv"), "time,value\n0,3\n30,4\n");
  return { folder, level, scene };
}

describe("sluice simulate", () => {
  it("prints the outcome of requests and expectations, and ends with 0 when all hold", async (t) => {
    const { level, scene } = files(t);
    const { code, out, err } = await run(level, "--scenario", scene);
    assert.equal(err, "");
    assert.equal(code, 0);
    assert.match(out, /^level \([0-9a-f]+\): 60s of virtual time, seed 1\n/);
    assert.match(out, /\nall 0s–60s +s +20\.0 +20\.0 +20\.0 +5\.0 +5\.0 +0\.0 +0\.0\n/);
    assert.match(out, /\nholds +quick +latency p50 below 10 ms +5 ms +0s–60s\n/);
    assert.match(out, /\nholds +LEVEL at most 4 +3 to 4 +0s–60s\n/);
    assert.match(out, /\n2 of 2 expectations hold\n$/);
  });

  it("accepts a directory of policies, and skips dynamic configuration in it", async (t) => {
    const { level, scene } = files(t);
    const folder = folderOf(t, {
      "level.yaml": readFileSync(level, "utf8"),
      "level.dynamic.yaml": "x: 1\n",
    });
    const { code, out, err } = await run(folder, "--scenario", scene);
    assert.equal(code, 0, err);
    assert.match(out, /^level \(/);
  });

  it("puts selectors and the agent into the group of --agent-group, unless the scenario names the agent's", async (t) => {
    const one = "{ constant_signal: { value: 1 } }";
    const ports = `in_ports: { bucket_capacity: ${one}, fill_amount: ${one} }`;
    const policy = limiterPolicy("rate_limiter", `${ports}, parameters: { interval: 1s }`);
    const limited =
      "duration: 10s\nservices: [{ name: s, control_point: p, rate: 20, servers: 2, service_time: { constant: 5ms } }]\n";
    const expecting = `${limited}expect: [{ refused_share: { at_least: 0.5 } }]\n`;
    const simulated = (scenario: string, ...flags: readonly string[]) => {
      const { level, scene } = files(t, { policy, scenario });
      return run(level, "--scenario", scene, ...flags);
    };
    const inShop = `${expecting}agent_group: shop\n`;
    for (const [scenario, ...flags] of [
      [expecting],
      [expecting, "--agent-group", "shop"],
      [inShop, "--agent-group", "shop"],
    ] as const) {
      const { code, err } = await simulated(scenario, ...flags);
      assert.deepEqual([code, err], [0, ""]);
    }
    const elsewhere = await simulated(inShop);
    assert.equal(elsewhere.code, 1);
    assert.match(
      elsewhere.err,
      /level\.yaml:.*: no agent is in the agent group default \(warning\)\n$/,
    );
  });

  it("ends with 1 when an expectation fails, and says what was measured", async (t) => {
    const { level, scene } = files(t, { scenario: SCENARIO.replace("at_most: 4", "at_most: 3") });
    const { code, out } = await run(level, "--scenario", scene);
    assert.equal(code, 1);
    assert.match(out, /\nFAILS +LEVEL at most 3 +3 to 4/);
    assert.match(out, /\n1 of 2 expectations hold\n$/);
  });

  it("prints JSON that a program reads", async (t) => {
    const { level, scene } = files(t);
    const args = [level, "--scenario", scene, "--json", "--series", "LEVEL"];
    const { code, out } = await run(...args);
    assert.equal(code, 0);
    const report = JSON.parse(out);
    assert.equal(report.holds, true);
    assert.equal(report.seed, 1);
    assert.equal(report.policies[0].name, "level");
    assert.equal(report.requests[0].p50_ms, 5);
    assert.deepEqual(report.expectations[1], {
      name: "LEVEL at most 4",
      wanted: "LEVEL at most 4",
      holds: true,
      measured: "3 to 4",
      from_s: 0,
      until_s: 60,
      least: 3,
      greatest: 4,
    });
    assert.deepEqual(report.series.LEVEL[0], [0, null]);
    assert.deepEqual(report.series.LEVEL[31], [31, 4]);
  });

  it("draws the panels of the scenario, or the requested series", async (t) => {
    const { folder, level, scene } = files(t);
    const file = join(folder, "plot.svg");
    const draw = async (...more: readonly string[]) => {
      const { code } = await run(level, "--scenario", scene, "--plot", file, ...more);
      assert.equal(code, 0);
      return readFileSync(file, "utf8");
    };
    const own = await draw();
    assert.match(own, /levels/);
    assert.equal(own.split('class="line"').length - 1, 2);
    const asked = await draw("--series", "LEVEL,s.queued", "--series", "s.utilisation");
    assert.equal(asked.split('class="line"').length - 1, 3);
    assert.match(asked, /s\.utilisation/);
  });

  it("uses the given random seed", async (t) => {
    const { level, scene } = files(t, { scenario: SCENARIO.replace("uniform", "poisson") });
    const reportOf = async (seed: string) =>
      (await run(level, "--scenario", scene, "--seed", seed)).out.replace(/seed \d+/, "");
    assert.equal(await reportOf("5"), await reportOf("5"));
    assert.notEqual(await reportOf("5"), await reportOf("6"));
  });

  it("reads the scenario from a pipe", async (t) => {
    const { folder, scene } = files(t);
    const plain = SCENARIO.replace(/^(series|expect|plot):.*\n( .*\n)*/gm, "");
    const pipe = join(folder, "pipe.yaml");
    execFileSync("mkfifo", [pipe]);
    writeFileSync(scene, plain);
    const writer = spawn("sh", ["-c", 'cat "$1" > "$2"', "sh", scene, pipe]);
    const { code, out, err } = await run("--scenario", pipe);
    writer.kill();
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^no policy: 60s of virtual time/);
  });

  it("colours what holds and what fails for a terminal, and never against NO_COLOR", async (t) => {
    const { level, scene } = files(t, { scenario: SCENARIO.replace("at_most: 4", "at_most: 3") });
    const args = ["simulate", level, "--scenario", scene];
    const on = (env: Readonly<Record<string, string>>) =>
      runCommand(args, { env, isTty: { out: true, err: true } });
    const GREEN = `${String.fromCharCode(27)}[32m`;
    const RED = `${String.fromCharCode(27)}[31m`;
    const { out } = await on({});
    assert.ok(out.includes(`${GREEN}holds`) && out.includes(`${RED}FAILS`), out);
    assert.ok(out.includes(`${RED}1 of 2 expectations hold`), out);
    assert.equal((await on({ NO_COLOR: "1" })).out, (await runCommand(args)).out);
  });

  it("simulates only the service when there is no policy", async (t) => {
    const { scene } = files(t, {
      scenario:
        "duration: 10s\nservices: [{ name: s, control_point: p, rate: 1, servers: 1, service_time: { constant: 1ms } }]",
    });
    const { code, out } = await run("--scenario", scene);
    assert.equal(code, 0);
    assert.match(out, /^no policy: 10s of virtual time/);
  });

  it("ends with 64 for input that it cannot use, and names all of it", async (t) => {
    const { folder, level, scene } = files(t);
    const bad = files(t, { policy: "circuit: 1", scenario: "duration: 1" });
    const asked = async (...args: readonly string[]) => {
      const { code, out, err } = await run(...args);
      assert.equal(code, 64);
      assert.equal(out, "");
      return err;
    };
    assert.match(await asked(level), /wanted --scenario FILE, got none/);
    assert.match(
      await asked(level, "--scenario", join(folder, "gone.yaml")),
      /gone.yaml: wanted a file/,
    );
    const both = await asked(bad.level, "--scenario", bad.scene);
    assert.match(both, /level.yaml:1:10: circuit: wanted an object/);
    assert.match(both, /scene.yaml:1:11: duration: wanted a duration above 0s/);
    assert.match(
      await asked(level, "--scenario", scene, "--seed", "x"),
      /whole number below 2\^32/,
    );
    assert.match(
      await asked(level, "--scenario", scene, "--json", "--series", "LEVLE"),
      /signal or model series for --series; did you mean LEVEL\?, got LEVLE/,
    );
    assert.match(
      await asked(level, "--scenario", scene, "--plot", join(folder, "no", "plot.svg")),
      /a file for --plot that can be written/,
    );
    const unknown = files(t, { scenario: SCENARIO.replace("signal: LEVEL", "signal: LEVLE") });
    assert.match(
      await asked(unknown.level, "--scenario", unknown.scene),
      /scene.yaml:6:5: expect\[1\]: wanted a signal or model series; did you mean LEVEL\?, got "LEVLE"/,
    );
    const gone = files(t, { scenario: SCENARIO.replace("level.csv", "gone.csv") });
    assert.match(await asked(gone.level, "--scenario", gone.scene), /gone.csv: wanted a file/);
    assert.match(await asked(level, "--scenario", scene, "--plto", "x"), /--plto/);
    assert.match(
      await asked(level, "--scenario", scene, "--plot", join(folder, "plot.png")),
      /wanted a file name that ends in \.svg for --plot, .*, got .*plot\.png/,
    );
    assert.equal(existsSync(join(folder, "plot.png")), false);
    assert.match(
      await asked(level, "--scenario", scene, "--series", "LEVEL"),
      /wanted --plot FILE\.svg or --json together with --series/,
    );
  });

  it("reads recordings relative to the scenario, or from absolute paths", async (t) => {
    const elsewhere = join(folderOf(t), "far.csv");
    writeFileSync(elsewhere, "time,value\n0,8\n");
    const { level, scene } = files(t, { scenario: SCENARIO.replace("level.csv", elsewhere) });
    const { code, out } = await run(level, "--scenario", scene);
    assert.equal(code, 1);
    assert.match(out, /\nFAILS +LEVEL at most 4 +8 /);
  });

  it("prints what the guide quotes", async () => {
    const guide = readFileSync(join(ROOT, "deploy/GUIDE.md"), "utf8");
    const blocks = guide.matchAll(/^\$ npm run -s sluice -- simulate (.*)\n([^`]*)^```$/gm);
    let compared = 0;
    for (const [, line = "", shown = ""] of blocks) {
      const args = line.replace(/ --plot \S+/, "").split(" ");
      const { out } = await run(...args.map((arg) => arg.replace(/^deploy/, `${ROOT}/deploy`)));
      const printed = new Set(out.split("\n"));
      const wrong = shown.split("\n").filter((each) => !printed.has(each));
      assert.deepEqual(wrong, [], line);
      compared++;
    }
    assert.equal(compared, 3);
  });
});
