// `sluice policy apply`: gives policies to a running controller, and waits until its agents apply them.

import { setTimeout as sleep } from "node:timers/promises";
import { parseDuration } from "#base/duration.ts";
import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { setLines } from "#policy/format.ts";
import type { PolicyText } from "#policy/set.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Checked, checkFiles, type DynamicFile } from "../policies/files.ts";
import type { Json } from "../server.ts";
import type { Command } from "../subcommands.ts";
import { printJson, type Terminal } from "../terminal.ts";
import { type Controller, openController } from "./ask.ts";
import { pathOfPolicy } from "./policies.ts";
import { isBehind, refusedText, rolloutText } from "./rollout.ts";

/** Stands for the name of a policy from standard input that has none. */
const UNNAMED = "-";

/** Milliseconds to wait until all agents apply what was given to the controller. */
const WAIT_MS = 5_000;
const POLL_MS = 100;

export const policyApplyCommand: Command<"policy apply"> = async (
  { flags, operands },
  terminal,
) => {
  const waitMs = waitOf(flags.wait);
  const set = await readSet(operands, flags.name, terminal);
  for (const { kind, text } of setLines(set))
    if (kind === "finding" || kind === "warning") terminal.err(`${text}\n`);
  if (set.findings.length > 0) return EXIT.refused;
  refuseOtherName(flags.name, set.policies);
  const documents = documentsOf(set.policies, set.texts);
  const controller = await openController(flags, terminal);
  const versions = await sent(controller, documents);
  const configured = await configure(controller, set.configs);
  const until = performance.now() + waitMs;
  const applied: Json[] = [];
  for (const [name, policy_hash] of versions) {
    const { status, reason, rollout } = await followed(controller, name, until);
    const dynamic = configured.get(name);
    const config = dynamic === undefined ? {} : { dynamic_config: dynamic };
    applied.push({ name, policy_hash, status, reason, rollout, ...config });
  }
  if (flags.json) printJson(terminal, applied);
  else {
    for (const each of applied) terminal.out(`${appliedLine(each)}\n`);
    for (const [name, source] of configured)
      terminal.out(`${name}: dynamic configuration of ${printable(source)} applied\n`);
  }
  return waitMs === 0 || applied.every(isInForce) ? EXIT.clean : EXIT.refused;
};

/** Compiles the documents. `name` is for the one from standard input. */
async function readSet(
  files: readonly string[],
  name: string | undefined,
  terminal: Terminal,
): Promise<Checked> {
  if (name !== undefined && !files.includes("-")) {
    const wanted = "--name: wanted - among the files, because it names the policy from there";
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${JSON.stringify(files)}`);
  }
  // Only the controller knows what it cannot run itself; it refuses such policies.
  const judging = { queries: "prometheus", labels: [], stdinName: name ?? UNNAMED } as const;
  const set = await checkFiles("policy apply", files, terminal, judging);
  if (set.policies.some(({ name }) => name === UNNAMED)) {
    const wanted = "policy apply -: wanted the name of the policy, as metadata.name or by --name";
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got neither`);
  }
  return set;
}

/** Refuses `--name` where the document from standard input has another name. */
function refuseOtherName(
  name: string | undefined,
  policies: readonly Omit<Document, "text">[],
): void {
  const other = policies.find((policy) => policy.source === "stdin" && policy.name !== name);
  if (name === undefined || other === undefined) return;
  const wanted = `the name ${JSON.stringify(name)}, or none, in the document`;
  const got = JSON.stringify(other.name);
  throw new Fault("INVALID_ARGUMENT", `--name: wanted ${wanted}, got ${got}`);
}

/** A policy with the document that the controller is given. */
interface Document {
  readonly name: string;
  readonly source: string;
  readonly text: string;
}

/** @throws Fault INVALID_ARGUMENT for a file with several policies, because a controller takes a document with one */
function documentsOf(
  policies: readonly Omit<Document, "text">[],
  texts: readonly PolicyText[],
): readonly Document[] {
  const bySource = Map.groupBy(policies, ({ source }) => source);
  for (const [source, { length }] of bySource) {
    if (length === 1) continue;
    const wanted = `wanted one policy, got ${length}; put each policy in a file of its own`;
    throw new Fault("INVALID_ARGUMENT", `${printable(source)}: ${wanted}`);
  }
  return policies.map(({ source, name }) => {
    return { name, source, text: texts.find((text) => text.source === source)?.text ?? "" };
  });
}

/** Gives the documents to the controller, one after the other up to the first failure, and returns their versions by name. */
async function sent(
  controller: Controller,
  documents: readonly Document[],
): Promise<ReadonlyMap<string, string>> {
  const versions = new Map<string, string>();
  for (const { name, source, text } of documents) {
    const body = { policy_string: text };
    const { policy_hash } = await controller
      .call("POST", pathOfPolicy(name), body)
      .catch((thrown) => {
        const { code, message } = Fault.from(thrown);
        const earlier = [...versions.keys()].join(", ") || "nothing";
        const before = documents.length === 1 ? "" : `; applied before it: ${earlier}`;
        throw new Fault(code, `policy ${name} of ${printable(source)}: ${message}${before}`);
      });
    versions.set(name, String(policy_hash));
  }
  return versions;
}

/**
 * Gives the dynamic configuration of files to the controller, and returns the files by policy. The policy may also be one that
 * the controller already has.
 */
async function configure(
  controller: Controller,
  configs: ReadonlyMap<string, DynamicFile>,
): Promise<ReadonlyMap<string, string>> {
  for (const [name, { source, config }] of configs) {
    const path = `/v1/dynamic-configs/${encodeURIComponent(name)}`;
    await controller.call("POST", path, { dynamic_config: config }).catch((thrown: unknown) => {
      const { code, message } = Fault.from(thrown);
      throw new Fault(
        code,
        `dynamic configuration of ${printable(source)}: ${message}; the policies are applied`,
      );
    });
  }
  return new Map([...configs].map(([name, { source }]) => [name, source]));
}

function waitOf(text: string | undefined): number {
  const ms = text === undefined ? WAIT_MS : parseDuration(text);
  if (ms !== undefined && ms >= 0) return ms;
  const got = JSON.stringify(text);
  throw new Fault("INVALID_ARGUMENT", `--wait: wanted a duration such as 10s, or 0, got ${got}`);
}

/** The policy as the controller shows it, once all its agents apply it or the time is up. */
async function followed(controller: Controller, name: string, until: number): Promise<Json> {
  for (;;) {
    const view = await controller.call("GET", pathOfPolicy(name));
    if (isInForce(view) || performance.now() >= until) return view;
    await sleep(POLL_MS);
  }
}

/** True for a policy that runs and that all agents apply. */
function isInForce({ status, rollout }: Json): boolean {
  return status === "VALID" && !isBehind(rollout);
}

function appliedLine({ name, policy_hash, status, reason, rollout }: Json): string {
  const version = `version ${String(policy_hash)}`;
  if (status !== "VALID") {
    const why = printable(String(reason ?? ""));
    return `${String(name)} stored, ${version}; it does not run yet, ${String(status)}: ${why}`;
  }
  const late = isBehind(rollout) ? " so far; `sluice policy list` shows how it goes on" : "";
  return `${String(name)} applied, ${version}${rolloutText(rollout)}${late}${refusedText(rollout)}`;
}
