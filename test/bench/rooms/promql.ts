// Measures the cost of PromQL queries that Sluice answers in process, over a hundred series, and of a scrape of them.
// `node test/bench/rooms/promql.ts`

import { performance } from "node:perf_hooks";
import { QueryCompiler } from "#promql/evaluate.ts";
import { SampleStore } from "#promql/samples.ts";

const QUERIES = {
  rate: "sum by (job) (rate(requests_total[1m]))",
  quantile: "histogram_quantile(0.95, sum by (le) (rate(latency_bucket[1m])))",
  ratio: 'sum(rate(requests_total{code=~"5.."}[1m])) / sum(rate(requests_total[1m]))',
} as const;
const SERIES = 100;
const ROUNDS = 2_000;

const labels = Array.from({ length: SERIES }, (_, at) => [
  {
    __name__: "requests_total",
    job: `${at % 4}`,
    code: at % 10 === 0 ? "500" : "200",
    at: `${at}`,
  },
  {
    __name__: "latency_bucket",
    job: `${at % 10}`,
    le: at % 10 === 9 ? "+Inf" : `${at % 10}`,
    at: `${at}`,
  },
]).flat();
const store = new SampleStore();
store.setQueries(Object.values(QUERIES));
let at = 0;
for (; at < 120_000; at += 1_000) scrape(at);
const began = performance.now();
for (let round = 0; round < ROUNDS; round++, at += 1_000) scrape(at);
print(`scrape of ${labels.length} series`, performance.now() - began);
for (const [name, text] of Object.entries(QUERIES)) {
  const query = new QueryCompiler().compile(text);
  for (let round = 0; round < ROUNDS; round++) query(at, store);
  const started = performance.now();
  for (let round = 0; round < ROUNDS; round++) query(at - (round % 10), store);
  print(`${name}: ${SERIES} series of 60 samples`, performance.now() - started);
}

function scrape(now: number): void {
  store.addScrape(
    now,
    labels.map((each, place) => ({ labels: each, value: now * (place + 1) })),
  );
}

function print(what: string, ms: number): void {
  process.stdout.write(`${what}: ${((ms / ROUNDS) * 1000).toFixed(1)} µs\n`);
}
