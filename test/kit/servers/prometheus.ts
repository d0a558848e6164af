// Starts a real Prometheus that scrapes the targets of a test and answers queries. Tests freeze or kill it to see
// how Sluice copes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { prometheus as installed } from "../../../deploy/tools/install.ts";
import { folderOf } from "../folder.ts";
import { until } from "../until.ts";
import { child } from "./child.ts";

export interface PrometheusOptions {
  /** `host:port` of servers whose `/metrics` are scraped. */
  readonly scrapeTargets?: readonly string[];
  /** In the form of a Prometheus configuration: `1s`. */
  readonly scrapeInterval?: string;
  readonly flags?: readonly string[];
  /** A whole configuration, instead of one for the targets. */
  readonly configuration?: object;
}

export interface Prometheus {
  /** `http://host:port`. */
  readonly address: string;
  /** Stops it with SIGTERM and waits until it has ended. */
  stop(): Promise<void>;
  /** Stops it from running until `thaw`: the system still accepts connections, and nothing is answered. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Kills it and waits until it has ended. */
  kill(): Promise<void>;
}

/** Starts a server that runs until the test ends, with an empty database that accepts remote writes. */
export async function startPrometheus(
  test: TestContext,
  options: PrometheusOptions = {},
): Promise<Prometheus> {
  const { scrapeTargets = [], scrapeInterval = "1s", flags = [] } = options;
  const folder = folderOf(test);
  const config = options.configuration ?? {
    global: { scrape_interval: scrapeInterval, scrape_timeout: scrapeInterval },
    scrape_configs: [{ job_name: "test", static_configs: [{ targets: scrapeTargets }] }],
  };
  // JSON is YAML.
  writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
  const own = child(test, installed(), [
    `--config.file=${folder}/prometheus.yml`,
    `--storage.tsdb.path=${folder}/data`,
    "--web.listen-address=127.0.0.1:0",
    "--web.enable-remote-write-receiver",
    "--log.format=json",
    ...flags,
  ]);
  const address = () => /"address":"(127\.0\.0\.1:[1-9]\d*)"/.exec(own.err())?.[1];
  await own.until("Prometheus listens", () => address() !== undefined);
  const url = `http://${address()}`;
  await until("Prometheus is ready", async () => (await fetch(`${url}/-/ready`)).ok);
  const end = async (signal: NodeJS.Signals) => {
    own.kill(signal);
    await own.ended;
  };
  return {
    address: url,
    stop: () => end("SIGTERM"),
    freeze: own.freeze,
    thaw: () => own.kill("SIGCONT"),
    kill: () => end("SIGKILL"),
  };
}
