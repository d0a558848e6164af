// Short runs of `make demo-loop` and `make rehearse` with a quota scheduler: without its policy important requests are lost with
// all others, with it they get through, and simulation and reality agree. How long requests take is not judged.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { processorTime, waitingLine } from "../../deploy/demo/play/processor-time.ts";
import { child } from "../kit/servers/child.ts";
import { areFree, freeShift } from "../kit/servers/shift.ts";

const DEMO = join(import.meta.dirname, "../../deploy/demo");
/** Figures per second of the last phase, as the tables of the demo have them. */
function lastRows(out: string) {
  const rows = out.matchAll(/^overload stays .*\n.*x_kind=interactive x_tenant=all +(.*)$/gm);
  return [...rows].map(([, numbers = ""]) => {
    const figures = numbers.trim().split(/ +/).map(Number);
    const [offered = 0, accepted = 0, goodput = 0, , , , failed = 0] = figures;
    return { offered, accepted, goodput, failed };
  });
}

test("the demo shows an overload without a policy and with one, and ends", async (t) => {
  const shift = await freeShift(20_001);
  const flags = ["quota", "--seconds", "2", "--shift", `${shift}`];
  const demo = child(t, process.execPath, [join(DEMO, "loop.ts"), ...flags]);
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  const out = demo.out();
  t.diagnostic(out);
  const [without = assert.fail(out), withPolicy = assert.fail(out)] = lastRows(out);
  // 300 arrive each second, and the service can answer 100.
  assert.ok(without.goodput < without.offered / 2, out);
  assert.ok(without.failed > without.offered / 2, out);
  assert.ok(withPolicy.accepted > 0.8 * withPolicy.offered, out);
  assert.ok(withPolicy.failed < 0.2 * withPolicy.offered, out);
  if (processorTime([process.pid]) !== undefined)
    assert.equal(out.match(/ waited for a processor in \d+ %/g)?.length, 2, out);
  assert.match(out, /what has really happened/);
  assert.match(out, /All processes have been stopped/);
  assert.ok(await areFree(shift), "the ports are free again");
});

test("a demo measures how long its processes waited for a processor, and says so", () => {
  const before = processorTime([process.pid]);
  if (before === undefined) return; // Only Linux counts it.
  const used = process.cpuUsage().user;
  while (process.cpuUsage().user < used + 50_000);
  const after = processorTime([process.pid]);
  assert.ok(
    after !== undefined && after.ran - before.ran >= 40e6,
    "the time of this thread counts",
  );
  assert.equal(processorTime([2 ** 30]), undefined, "no such process");
  const line = (ran: number, waited: number) =>
    waitingLine({ ran: 5, waited: 5 }, { ran: 5 + ran, waited: 5 + waited }) ?? "";
  assert.match(line(3, 1), /in 25 % of the time in which they had work\.$/);
  assert.match(line(1, 3), /in 75 % of the time .*: this machine is too busy/);
  assert.equal(line(0, 0), "");
});

interface Report {
  readonly requests: readonly {
    readonly phase: string;
    readonly labels: Readonly<Record<string, string>> | null;
    readonly offered: number;
    readonly accepted: number;
    readonly goodput: number;
    readonly p95_ms: number | null;
  }[];
}

test("reality agrees with the simulation", async (t) => {
  const shift = await freeShift(20_001);
  const flags = ["quota", "--json", "--seconds", "4", "--shift", `${shift}`];
  const run = child(t, process.execPath, [join(DEMO, "rehearse.ts"), ...flags]);
  await run.ended;
  const line = /^\{.*\}$/m.exec(run.out())?.[0];
  assert.ok(line !== undefined, run.out() + run.err());
  const { simulated, real } = JSON.parse(line) as Record<"simulated" | "real", Report>;
  const last = ({ requests }: Report) => requests.filter(({ phase }) => phase === "overload stays");
  const model = last(simulated);
  const rows = last(real);
  assert.equal(rows.length, 4);
  for (const [at, { labels, offered, accepted, goodput, p95_ms: p95 }] of rows.entries()) {
    const wanted = model[at];
    assert.ok(wanted !== undefined);
    const of = JSON.stringify(labels ?? "all");
    const simulation = `${wanted.goodput} a second, p95 ${wanted.p95_ms} ms`;
    t.diagnostic(`${of}: ${goodput} a second, p95 ${p95} ms; simulated: ${simulation}`);
    near(accepted, wanted.accepted);
    if (labels === null) near(goodput, wanted.goodput);
    if (labels?.["http.request.header.x_kind"] === "interactive") near(accepted, offered);
  }
});

/** A busy machine answers late, but it answers, and nobody else gets what was meant for another. */
function near(got: number, wanted: number): void {
  assert.ok(Math.abs(got - wanted) <= 0.25 * wanted, `wanted about ${wanted}, got ${got}`);
}
