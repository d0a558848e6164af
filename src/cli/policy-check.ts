// `sluice policy check`: judges documents as the controller would, without running them.

import { createHash } from "node:crypto";
import { parse } from "node:path";
import { Fault } from "#base/fault.ts";
import { EXIT } from "#host/run.ts";
import { readTextFile } from "#host/text-file.ts";
import { setLines } from "#policy/report.ts";
import { compileSet } from "#policy/set.ts";
import { type Command, readArgs } from "./command.ts";

/** As much as the controller reads of one document. */
const MAX_BYTES = 4 * 1024 * 1024;

export const policyCheckCommand: Command = async (args, terminal) => {
  const { positionals } = readArgs(args, {}, true);
  if (positionals.length === 0) {
    throw new Fault("INVALID_ARGUMENT", "policy check: wanted at least one FILE, got none");
  }
  const texts = await Promise.all(
    positionals.map(async (source) => ({
      source,
      stem: parse(source).name,
      text: await readTextFile(source, MAX_BYTES),
    })),
  );
  const set = compileSet(texts, (text) => createHash("sha256").update(text).digest("hex"));
  const refused = set.findings.length > 0;
  const say = refused ? terminal.err : terminal.out;
  for (const line of setLines(set)) say(`${line}\n`);
  return refused ? EXIT.refused : EXIT.clean;
};
