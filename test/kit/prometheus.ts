// Starts a real Prometheus that scrapes what a test names and answers queries, and stops its clock or its life
// when a test wants to see what others do about that.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { prometheus as installed } from "../tools/install.ts";
import { child } from "./child.ts";
import { eventually } from "./eventually.ts";
import { folderOf } from "./folder.ts";

export interface PrometheusOptions {
  /** `host:port` of servers whose `/metrics` are scraped. */
  readonly scrapeTargets?: readonly string[];
  /** As in a configuration: `1s`. */
  readonly scrapeInterval?: string;
  readonly flags?: readonly string[];
}

export interface Prometheus {
  /** `http://host:port`. */
  readonly address: string;
  /** Ends it as an operator would, and waits. */
  stop(): Promise<void>;
  /** When this resolves it accepts connections and says nothing until `thaw`. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Ends it at once, and waits. */
  kill(): Promise<void>;
}

/** Runs until the test ends, on a port of its own and with an empty database that takes remote writes. */
export async function startPrometheus(
  test: TestContext,
  options: PrometheusOptions = {},
): Promise<Prometheus> {
  const { scrapeTargets = [], scrapeInterval = "1s", flags = [] } = options;
  const folder = folderOf(test);
  const config = {
    global: { scrape_interval: scrapeInterval, scrape_timeout: scrapeInterval },
    scrape_configs: [{ job_name: "test", static_configs: [{ targets: scrapeTargets }] }],
  };
  // JSON is YAML.
  writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
  const own = child(test, installed(), [
    ...[`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`],
    ...["--web.listen-address=127.0.0.1:0", "--web.enable-remote-write-receiver"],
    ...["--log.format=json", ...flags],
  ]);
  const address = () => /"address":"(127\.0\.0\.1:[1-9]\d*)"/.exec(own.err())?.[1];
  await own.until("Prometheus listens", () => address() !== undefined);
  const url = `http://${address()}`;
  await eventually("Prometheus is ready", async () => (await fetch(`${url}/-/ready`)).ok);
  const end = async (signal: NodeJS.Signals) => {
    own.kill(signal);
    await own.ended;
  };
  return {
    address: url,
    stop: () => end("SIGTERM"),
    freeze: async () => {
      own.kill("SIGSTOP");
      // A signal is on its way for a while: until then a question may still be answered.
      while (!isStopped(own.process.pid)) await sleep(2);
    },
    thaw: () => own.kill("SIGCONT"),
    kill: () => end("SIGKILL"),
  };
}

/** Every thread of it. Where there is no /proc, nobody can tell. */
function isStopped(pid: number | undefined): boolean {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return true;
  return readdirSync(tasks).every((task) => {
    const stat = readFileSync(`${tasks}/${task}/stat`, "utf8");
    return /^[Tt]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  });
}
