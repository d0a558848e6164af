// Fuzzes the own HTTP/2 transport for as long as one wants:
// `node test/fuzz/h2.ts --frames 10000000 --seed 1`, or one case of a run again with `--only`.

import { parseArgs } from "node:util";
import { Fuzzer, type Summary } from "../kit/fuzz.ts";
import { recordings } from "./recordings.ts";

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
  recordings: recordings(),
  ...(values.only !== undefined && { only: Number(values.only) }),
  progress: (summary) => process.stderr.write(`${told(summary)}\n`),
});
const failure = await fuzzer.run();
process.stdout.write(`${told(fuzzer.summary)}\n`);
if (failure !== undefined) {
  const { index, manner, wrong } = failure;
  process.stdout.write(`case ${index} (${manner}) went wrong:\n  ${wrong.join("\n  ")}\n`);
  process.stdout.write(`again: node test/fuzz/h2.ts --seed ${seed} --only ${index}\n`);
  process.exitCode = 1;
}

function told({ frames, connections, answers, goaways, resets, ...rest }: Summary): string {
  const codes = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  return [
    `${frames} frames on ${connections} connections, ${answers} frames back`,
    `GOAWAY: ${codes(goaways)}`,
    `RST_STREAM: ${codes(resets)}`,
    `held ${mib(rest.warm)} MiB warm, ${mib(rest.held)} MiB at the end, peak ${mib(rest.peak)} MiB`,
    `${rest.seconds.toFixed(1)} s, ${Math.round(frames / rest.seconds)} frames/s`,
  ].join("; ");
}
