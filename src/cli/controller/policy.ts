// `sluice policy apply`, `get`, `list` and `delete`: the policies of a running controller.

import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { parseDuration } from "#base/duration.ts";
import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { setLines } from "#policy/format.ts";
import type { PolicyText } from "#policy/set.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Command, readArgs } from "../command.ts";
import { checkFiles, type DynamicFile } from "../policies/files.ts";
import { CONTROLLER_OPTIONS, type Controller, type Json, openController } from "./ask.ts";
import { tableText } from "./table.ts";

const pathOf = (name: string) => `/v1/policies/${encodeURIComponent(name)}`;

/** Stands for the name of a policy from standard input that has none. */
const UNNAMED = "-";

/** Milliseconds to wait until all agents apply what was given to the controller. */
const WAIT_MS = 5_000;
const POLL_MS = 100;

export const policyApplyCommand: Command = async (args, terminal) => {
  const options = {
    ...CONTROLLER_OPTIONS,
    name: { type: "string" },
    wait: { type: "string" },
  } as const;
  const { positionals, values } = readArgs(args, options, true);
  const files: readonly string[] = positionals;
  const waitMs = waitOf(values.wait);
  const { name } = values;
  if (name !== undefined && !files.includes("-")) {
    const wanted = "--name: wanted - among the files, because it names the policy from there";
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${JSON.stringify(files)}`);
  }
  // The controller itself refuses what it cannot do and others could.
  const judging = { queries: "prometheus", labels: [], stdinName: name ?? UNNAMED };
  const set = await checkFiles("policy apply", files, terminal, judging);
  if (set.policies.some((policy) => policy.name === UNNAMED)) {
    const wanted = "policy apply -: wanted the name of the policy, as metadata.name or by --name";
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got neither`);
  }
  for (const { kind, text } of setLines(set))
    if (kind === "finding" || kind === "warning") terminal.err(`${text}\n`);
  if (set.findings.length > 0) return EXIT.refused;
  const other = set.policies.find((policy) => policy.source === "stdin" && policy.name !== name);
  if (name !== undefined && other !== undefined) {
    const wanted = `the name ${JSON.stringify(name)}, or none, in the document`;
    const got = JSON.stringify(other.name);
    throw new Fault("INVALID_ARGUMENT", `--name: wanted ${wanted}, got ${got}`);
  }
  const documents = documentsOf(set.policies, set.texts);
  const controller = await openController(values, terminal);
  const versions = await sent(controller, documents);
  const configured = await configure(controller, set.configs);
  const until = performance.now() + waitMs;
  const applied: Json[] = [];
  for (const [each, policy_hash] of versions) {
    const { status, reason, rollout } = await followed(controller, each, until);
    const dynamic = configured.get(each);
    const config = dynamic === undefined ? {} : { dynamic_config: dynamic };
    applied.push({ name: each, policy_hash, status, reason, rollout, ...config });
  }
  if (values.json === true) terminal.out(`${JSON.stringify(applied, undefined, 2)}\n`);
  else {
    for (const each of applied) terminal.out(`${appliedLine(each)}\n`);
    for (const [each, source] of configured)
      terminal.out(`${each}: dynamic configuration of ${printable(source)} applied\n`);
  }
  return waitMs === 0 || applied.every(isInForce) ? EXIT.clean : EXIT.refused;
};

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
    const { policy_hash } = await controller.call("POST", pathOf(name), body).catch((thrown) => {
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
 * Gives the dynamic configuration of files to the controller, and returns the files by policy. One that is for no policy of
 * the documents is for one that the controller has already.
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
    const view = await controller.call("GET", pathOf(name));
    if (isInForce(view) || performance.now() >= until) return view;
    await sleep(POLL_MS);
  }
}

/** True for a policy that runs and that all agents apply. */
function isInForce({ status, rollout }: Json): boolean {
  return status === "VALID" && !isBehind(rollout);
}

function isBehind(rollout: unknown): boolean {
  if (typeof rollout !== "object" || rollout === null) return false;
  const { agents, applied } = rollout as Json;
  return Number(applied) < Number(agents);
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

export const policyGetCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const [name] = oneName("policy get", positionals);
  const controller = await openController(values, terminal);
  const view = await controller.call("GET", pathOf(name));
  if (values.json === true) terminal.out(`${JSON.stringify(view, undefined, 2)}\n`);
  else {
    const { policy, status, reason, rollout } = view;
    const why = reason === "" || reason === undefined ? "" : `: ${printable(String(reason))}`;
    const refused = refusedText(rollout).replaceAll("\n", "\n#");
    terminal.out(`# ${name} ${String(status)}${why}${rolloutText(rollout)}${refused}\n`);
    if (policy !== null) terminal.out(stringify(policy, { lineWidth: 110 }));
  }
  return EXIT.clean;
};

export const policyListCommand: Command = async (args, terminal) => {
  const { values } = readArgs(args, CONTROLLER_OPTIONS);
  const controller = await openController(values, terminal);
  const reply = await controller.call("GET", "/v1/policies");
  const found = ((reply["policies"] as Json | undefined)?.["policies"] ?? {}) as Json;
  if (values.json === true) terminal.out(`${JSON.stringify(found, undefined, 2)}\n`);
  else if (Object.keys(found).length === 0) terminal.out("no policies\n");
  else {
    const rows = Object.entries(found).map(([name, view]) => {
      const { status, reason, rollout } = view as Json;
      return [name, String(status), agentsText(rollout), String(reason || behindText(rollout))];
    });
    terminal.out(tableText(["NAME", "STATUS", "AGENTS", "REASON"], rows));
  }
  return EXIT.clean;
};

export const policyDeleteCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const [name] = oneName("policy delete", positionals);
  const controller = await openController(values, terminal);
  // The service answers alike whether there was such a policy; people who mistype want to know.
  await controller.call("GET", pathOf(name));
  await controller.call("DELETE", pathOf(name));
  terminal.out(
    values.json === true ? `${JSON.stringify({ deleted: name })}\n` : `${name} deleted\n`,
  );
  return EXIT.clean;
};

function oneName(command: string, names: readonly string[]): readonly [string] {
  const [name] = names;
  if (name !== undefined && name !== "" && names.length === 1) return [name];
  throw new Fault("INVALID_ARGUMENT", `${command}: wanted one NAME, got ${names.length}`);
}

/** `2 of 3`, or `-` where nothing in a policy concerns agents. */
function agentsText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "-";
  const { agents, applied, unknown } = rollout as Json;
  const more = Number(unknown ?? 0) > 0 ? `, ${String(unknown)} unknown` : "";
  return `${String(applied)} of ${String(agents)}${more}`;
}

function rolloutText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "";
  const { agents, applied, behind } = rollout as Json;
  const names = Array.isArray(behind) ? behind.map((name) => printable(String(name))) : [];
  const missing = Number(agents) - Number(applied);
  const more = missing > names.length ? ` and ${missing - names.length} more` : "";
  const late = names.length === 0 ? "" : `; behind: ${names.join(", ")}${more}`;
  return `; ${agentsText(rollout)} agents at this version${late}`;
}

/**
 * The first agent that does not apply the version of a policy, in one line: one that refuses it or, without any, one
 * that has not reported it yet.
 */
function behindText(rollout: unknown): string {
  const { agents, applied, behind, refused } = (rollout ?? {}) as Json;
  const refusals = Array.isArray(refused) ? refused : [];
  if (refusals.length > 0) {
    const others = refusals.length > 1 ? `; ${refusals.length - 1} more refuse it` : "";
    return `refused by ${String(refusals[0])}${others}`;
  }
  const names = Array.isArray(behind) ? behind : [];
  if (names.length === 0) return "";
  const missing = Number(agents) - Number(applied);
  const more = missing > 1 ? ` and ${missing - 1} more` : "";
  return `not yet at ${String(names[0])}${more}`;
}

/** A line for each agent that refuses rules of the policy. */
function refusedText(rollout: unknown): string {
  const { refused } = (rollout ?? {}) as Json;
  const each = Array.isArray(refused) ? refused : [];
  return each.map((one) => `\n  refused by ${printable(String(one))}`).join("");
}
