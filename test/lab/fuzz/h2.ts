// Fuzzes Sluice's HTTP/2 transport for a chosen number of frames: `node test/lab/fuzz/h2.ts --frames 10000000 --seed 1`.
// `--only INDEX` repeats one case of a run.

import { parseArgs } from "node:util";
import { Fuzzer, type Summary } from "./engine/fuzzer.ts";
import { loadRecordings } from "./load-recordings.ts";

const { values } = parseArgs({
  options: {
    frames: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
  },
});
const seed = Number(values.seed);
const fuzzer = new Fuzzer({
  seed,
  frames: Number(values.frames),
  recordings: loadRecordings(),
  ...(values.only !== undefined && { only: Number(values.only) }),
  progress: (summary) => process.stderr.write(`${describe(summary)}\n`),
});
const failure = await fuzzer.run();
process.stdout.write(`${describe(fuzzer.summary)}\n`);
if (failure !== undefined) {
  const { index, behaviour, violations } = failure;
  process.stdout.write(`case ${index} (${behaviour}) failed:\n  ${violations.join("\n  ")}\n`);
  process.stdout.write(`repeat: node test/lab/fuzz/h2.ts --seed ${seed} --only ${index}\n`);
  process.exitCode = 1;
}

function describe({
  frames,
  connections,
  framesReceived,
  goaways,
  resets,
  ...rest
}: Summary): string {
  const codes = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  return [
    `${frames} frames on ${connections} connections, ${framesReceived} frames received`,
    `GOAWAY: ${codes(goaways)}`,
    `RST_STREAM: ${codes(resets)}`,
    `memory ${mib(rest.warm)} MiB after warm-up, ${mib(rest.held)} MiB at the end, peak ${mib(rest.peak)} MiB`,
    `${rest.seconds.toFixed(1)} s, ${Math.round(frames / rest.seconds)} frames/s`,
  ].join("; ");
}
