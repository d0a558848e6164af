// The same half hour of samples in a real Prometheus and in memory: both give the same results for the same
// queries, including errors.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Chance, seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { QueryCompiler } from "#promql/evaluate.ts";
import type { Labels, Result } from "#promql/result.ts";
import { SampleStore } from "#promql/samples.ts";
import { parse } from "#promql/syntax/parse.ts";
import { print } from "#promql/syntax/print.ts";
import { validateQuery } from "#promql/validate.ts";
import { type Prometheus, startPrometheus } from "../../kit/servers/prometheus.ts";
import { asWritten, HISTORY, history, type Scrape } from "./history.ts";
import { Queries } from "./queries.ts";
import { remoteWrite } from "./remote-write.ts";

const MOMENTS = 20;
const QUERIES = 500;

type Pair = readonly [number, string];
interface Reply {
  readonly status: "success" | "error";
  readonly error?: string;
  readonly data?:
    | { readonly resultType: "scalar"; readonly result: Pair }
    | {
        readonly resultType: "vector";
        readonly result: readonly { readonly metric: Labels; readonly value: Pair }[];
      };
}

type Answer =
  | { readonly kind: "fault"; readonly why: string }
  | { readonly kind: "values"; readonly values: readonly (readonly [string, number])[] };

for (const seed of [20_231_114, Math.floor(Math.random() * 2 ** 32)]) {
  test(`${QUERIES} queries of seed ${seed}`, async (t) => {
    const chance = seededChance(seed);
    const scrapes = history(chance);
    const server = await startPrometheus(t);
    await remoteWrite(server.address, asWritten(scrapes));
    await compare(t, server, chance, scrapes);
  });
}

async function compare(
  t: TestContext,
  server: Prometheus,
  chance: Chance,
  scrapes: readonly Scrape[],
): Promise<void> {
  const queries = new Queries(chance);
  const asked = Array.from({ length: QUERIES }, () => queries.query());
  const store = new SampleStore();
  store.setQueries(asked);
  const counts = { empty: 0, fault: 0, values: 0 };
  let taken = 0;
  for (let moment = 1; moment <= MOMENTS; moment++) {
    // The last moments are after the last scrape, within the look back and beyond.
    const at =
      HISTORY.start +
      Math.floor((1.15 * (HISTORY.end - HISTORY.start) * moment) / MOMENTS / 1000) * 1000;
    for (let next = scrapes[taken]; next !== undefined && next.at <= at; next = scrapes[taken]) {
      store.addScrape(next.at, next.samples);
      taken += 1;
    }
    for (const text of asked.slice(
      ((moment - 1) * QUERIES) / MOMENTS,
      (moment * QUERIES) / MOMENTS,
    )) {
      const [wanted, got] = [await theirs(server, text, at), ours(text, at, store)];
      assertSame(got, wanted, `${text} at ${at}`);
      counts[got.kind === "values" && got.values.length === 0 ? "empty" : got.kind] += 1;
    }
  }
  t.diagnostic(JSON.stringify({ ...counts, series: store.series, room: store.capacity }));
  assert.equal(store.dropped, 0);
  assert.ok(counts.values > QUERIES / 2, "most queries have an answer");
}

async function theirs(server: Prometheus, query: string, at: number): Promise<Answer> {
  const body = new URLSearchParams({ query, time: String(at / 1000) });
  const sent = await fetch(`${server.address}/api/v1/query`, { method: "POST", body });
  const reply: Reply = JSON.parse(await sent.text());
  if (reply.data === undefined) {
    assert.match(
      reply.error ?? "",
      /many|same labelset|duplicate|overflows/,
      `${query}: ${reply.error}`,
    );
    return { kind: "fault", why: reply.error ?? "" };
  }
  if (reply.data.resultType === "scalar") {
    return {
      kind: "values",
      values: [["", Number(reply.data.result[1].replace("Inf", "Infinity"))]],
    };
  }
  return {
    kind: "values",
    values: reply.data.result.map(({ metric, value }) => [
      keyed(metric),
      Number(value[1].replace("Inf", "Infinity")),
    ]),
  };
}

function ours(text: string, at: number, store: SampleStore): Answer {
  assert.deepEqual(validateQuery(text, "own"), [], text);
  assert.equal(print(parse(print(parse(text)))), print(parse(text)));
  try {
    return { kind: "values", values: valuesOf(new QueryCompiler().compile(text)(at, store)) };
  } catch (thrown) {
    assert.ok(thrown instanceof Fault && thrown.code === "FAILED_PRECONDITION", String(thrown));
    return { kind: "fault", why: thrown.message };
  }
}

function valuesOf(result: Result): readonly (readonly [string, number])[] {
  if (result.kind === "scalar") return [["", result.value]];
  assert.ok(result.kind === "vector");
  return result.samples.map(({ labels, value }) => [keyed(labels), value]);
}

function keyed(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([one], [two]) => (one < two ? -1 : 1)));
}

function assertSame(got: Answer, wanted: Answer, what: string): void {
  const both = `${what}\ngot    ${JSON.stringify(got)}\nwanted ${JSON.stringify(wanted)}`;
  assert.equal(got.kind, wanted.kind, both);
  if (got.kind === "fault" || wanted.kind === "fault") return;
  // Only sorted results have an order.
  const order = /^sort/.test(what)
    ? (values: Answer & { readonly kind: "values" }) => values.values
    : ({ values }: Answer & { readonly kind: "values" }) =>
        values.toSorted(([one], [two]) => (one < two ? -1 : 1));
  const [left, right] = [order(got), order(wanted)];
  assert.deepEqual(
    left.map(([key]) => key),
    right.map(([key]) => key),
    both,
  );
  for (const [at, [key, value]] of left.entries()) {
    const other = right[at]?.[1] ?? Number.NaN;
    assert.ok(close(value, other), `${both}\n${key}: got ${value}, wanted ${other}`);
  }
}

function close(one: number, two: number): boolean {
  if (Object.is(one, two) || one === two) return true;
  if (!Number.isFinite(one - two)) return false;
  const size = Math.max(Math.abs(one), Math.abs(two));
  // Near zero is what is left over when large numbers cancel out, and servers add up in another order.
  return Math.abs(one - two) <= Math.max(1e-9 * size, 1e-12);
}
