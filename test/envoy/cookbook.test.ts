// Each page of docs/cookbook holds what it promises: its policy passes `policy check` and its scenario, and the requests
// in its table get the answers that stand beside them from a real Envoy. The test reads the pages themselves.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { parse } from "yaml";
import { http1, type RequestOptions } from "../kit/clients/http.ts";
import { runCommand } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const FOLDER = join(import.meta.dirname, "../../docs/cookbook");
const MOST_LINES = 30;
/** What the model's server of the recipe about tokens says that an answer cost. */
const COST = "600";

interface Row {
  readonly times: number;
  readonly request: RequestOptions;
  readonly together: boolean;
  readonly answers: string;
}

interface Recipe {
  readonly policy: string;
  readonly scenario: string;
  /** An attribute of Envoy's access log. */
  readonly attribute: string | undefined;
  /** What a Prometheus server answers. */
  readonly measured: number | undefined;
  readonly rows: readonly Row[];
}

const recipes = readdirSync(FOLDER).filter((file) => file !== "README.md");

test("there are twelve recipes, and the cookbook's first page leads to each", () => {
  assert.equal(recipes.length, 12);
  const first = readFileSync(join(FOLDER, "README.md"), "utf8");
  for (const file of recipes) assert.ok(first.includes(`](${file})`), file);
});

for (const file of recipes) {
  const recipe = read(readFileSync(join(FOLDER, file), "utf8"));

  test(`${file}: the policy is short, valid and holds in the simulator`, async (t) => {
    assert.ok(recipe.policy.trimEnd().split("\n").length <= MOST_LINES);
    const files = { "policy.yaml": recipe.policy, "scenario.yaml": recipe.scenario };
    const folder = folderOf(t, files);
    const [policy, scenario] = Object.keys(files).map((name) => join(folder, name));
    assert.ok(policy !== undefined && scenario !== undefined);
    const queries = recipe.measured === undefined ? "own" : "prometheus";
    const checked = await runCommand(["policy", "check", "--strict", "--queries", queries, policy]);
    assert.equal(checked.code, 0, checked.out + checked.err);
    const simulated = await runCommand(["simulate", policy, "--scenario", scenario]);
    assert.equal(simulated.code, 0, simulated.out + simulated.err);
  });

  test(`${file}: a real Envoy answers as the page says`, async (t) => {
    const service = await startService(t);
    const { policy, attribute, measured } = recipe;
    const { address } = await standalone(t, {
      policies: { "recipe.yaml": policy },
      ...(measured === undefined ? {} : { controller: await prometheusThatSays(t, measured) }),
    });
    if (policy.includes("query:")) {
      await until("limits follow the measurement", async () => {
        const { decisions } = await json(`http://${address}/v1/decisions`);
        if (Object.keys(decisions).length === 0) return false;
        const { status } = await json(`http://${address}/v1/status/system/policies/key/recipe`);
        const invalid: readonly { why: string }[] = status.message.value.invalid_signals;
        return measured === undefined || !invalid.some(({ why }) => why.startsWith("query "));
      });
    }
    const envoy = await startEnvoy(t, {
      agent: address,
      service: service.port,
      edit(of) {
        // A machine that is busy with other tests must not look like an agent that is away.
        of.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
        if (attribute === undefined) return;
        const path = [...AT.accessLog, 1, "typed_config", "attributes", "values"];
        of.insert(path, 0, parse(attribute));
      },
    });
    const ask = http1(t, envoy.url);
    for (const { times, request, together, answers } of recipe.rows) {
      const statuses: number[] = [];
      const one = async () => void statuses.push((await ask(request)).status);
      if (together) {
        // Those that are let in stay at the service until all others have their answer.
        service.hold();
        const all = Array.from({ length: times }, one);
        await until("all have arrived or are refused", () => {
          return service.held + statuses.length === times;
        });
        service.release();
        await Promise.all(all);
      } else {
        while (statuses.length < times) await one();
      }
      assert.equal(counted(statuses), answers, JSON.stringify(request));
    }
  });
}

async function json(url: string) {
  return JSON.parse(await (await fetch(url)).text());
}

/** `5 × 200, 1 × 429`, in the order of the statuses. */
function counted(statuses: readonly number[]): string {
  const times = new Map<number, number>();
  for (const status of statuses) times.set(status, (times.get(status) ?? 0) + 1);
  return [...times]
    .sort(([one], [other]) => one - other)
    .map(([status, count]) => `${count} × ${status}`)
    .join(", ");
}

function read(page: string): Recipe {
  const [, policy, scenario, envoy] = page.split(/^## .*$/m);
  const yamlOf = (section = "") => /^```yaml\n(.*?)^```$/ms.exec(section)?.[1];
  const rows = [...(envoy ?? "").matchAll(/^\| (\d+) × `curl (.*?)`( at once)? \| (.*) \|$/gm)];
  assert.ok(rows.length > 0);
  const measured = /query answers (\d+)/.exec(envoy ?? "")?.[1];
  return {
    policy: yamlOf(policy) ?? assert.fail("no policy"),
    scenario: yamlOf(scenario) ?? assert.fail("no scenario"),
    attribute: yamlOf(envoy),
    measured: measured === undefined ? undefined : Number(measured),
    rows: rows.map(([, times, curl = "", together, answers = ""]) => ({
      times: Number(times),
      request: requestOf(curl),
      together: together !== undefined,
      answers,
    })),
  };
}

/** The request that curl would send: `-H`, `-X`, `-d`, and the address of Envoy. */
function requestOf(curl: string): RequestOptions {
  const words = [...curl.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word);
  const headers: Record<string, string> = {};
  let request: RequestOptions = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "-H") {
      const [name = "", value = ""] = (words[++at] ?? "").split(": ");
      headers[name] = value;
    } else if (word === "-X") request = { ...request, method: words[++at] ?? "" };
    else if (word === "-d") {
      const body = words[++at] ?? "";
      headers["content-length"] = String(Buffer.byteLength(body));
      request = { ...request, body };
    } else {
      assert.ok(word.startsWith("localhost:10000/"), word);
      request = { ...request, path: word.slice("localhost:10000".length) };
    }
  }
  return { ...request, headers };
}

/** A service that answers at once, or holds what arrives. */
async function startService(t: TestContext) {
  let holds = false;
  const held: ServerResponse[] = [];
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader("x-tokens", COST);
    if (holds) held.push(response);
    else response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    port: (server.address() as AddressInfo).port,
    hold() {
      holds = true;
    },
    get held() {
      return held.length;
    },
    release() {
      holds = false;
      for (const response of held.splice(0)) response.end();
    },
  };
}

/** Variables of a controller whose Prometheus server answers each query with this number. */
async function prometheusThatSays(t: TestContext, number: number) {
  const data = { resultType: "vector", result: [{ metric: {}, value: [0, String(number)] }] };
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ status: "success", data }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { SVC_CONTROLLER_PROMETHEUS_ADDRESS: `http://127.0.0.1:${port}` };
}
