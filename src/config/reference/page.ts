// Writes the reference page of all configuration keys. The committed page under `docs/` must equal it.

import { ineffectiveGroups, ineffectiveReason } from "../ineffective.ts";
import { defaultConfigPath } from "../load.ts";
import { nameOf } from "../read/variables.ts";
import type { LeafRow, Row, Table } from "../table/row.ts";
import { LONGEST_MS, wantedOf } from "../table/value.ts";
import { branches, type ConfigLeaf, leaves, PROCESSES, type ProcessName } from "../tree.ts";

const ALL: readonly ProcessName[] = ["agent", "controller", "injector"];

function code(text: string): string {
  return `\`${text}\``;
}

function row(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function head(...cells: readonly string[]): readonly string[] {
  return [row(...cells), `|${" --- |".repeat(cells.length)}`];
}

function typeOf(leaf: Row): string {
  switch (leaf.kind) {
    case "number":
      return leaf.type;
    case "choice":
      return "string";
    case "strings":
      return "list of string";
    case "floats":
      return "list of float64";
    case "headers":
      return "map of lists of string";
    case "objects":
      return `list of ${leaf.table.name}`;
    case "object":
      return leaf.table.name;
    case "bool":
    case "string":
    case "duration":
      return leaf.kind;
  }
}

function defaultText(leaf: LeafRow): string {
  if (leaf.kind === "headers") return code("{}");
  if (leaf.kind === "objects") return code("[]");
  return code(
    typeof leaf.default === "string" ? leaf.default || '""' : JSON.stringify(leaf.default),
  );
}

function aboutText(leaf: LeafRow): string {
  const marks = [
    leaf.own === true ? "Specific to Sluice." : "",
    leaf.secret === true ? "Secret: shown as `***`." : "",
    leaf.deprecated === undefined ? "" : `Deprecated: ${leaf.deprecated}.`,
  ];
  return [leaf.about, ...marks].filter((text) => text !== "").join(" ");
}

/** Objects by name, with the places where each is used. */
function objectTables(): ReadonlyMap<string, { readonly table: Table; readonly found: string[] }> {
  const known = new Map<string, { readonly table: Table; readonly found: string[] }>();
  const note = (table: Table, place: string) => {
    const entry = known.get(table.name) ?? { table, found: [] };
    if (!entry.found.includes(place)) entry.found.push(place);
    known.set(table.name, entry);
  };
  const noteItems = (table: Table, path: string) => {
    for (const [key, item] of Object.entries(table.rows)) {
      const here = path === "" ? key : `${path}.${key}`;
      if (item.kind === "objects") {
        note(item.table, `${code(`${here}[]`)}: JSON, as a part of the list`);
        for (const inner of branches(item.table, `${here}[]`).slice(1)) {
          note(inner.table, `${code(inner.path)}: JSON, as a part of the list`);
        }
      } else if (item.kind === "object") noteItems(item.table, here);
    }
  };
  for (const process of ALL) {
    for (const { path, table } of branches(PROCESSES[process].table)) {
      if (table.name !== "") note(table, `${code(path)}: ${code(nameOf(process, path, "object"))}`);
    }
    noteItems(PROCESSES[process].table, "");
  }
  return known;
}

function objectSection(table: Table, found: readonly string[]): readonly string[] {
  const lines = [
    `### ${table.name}`,
    "",
    table.about,
    "",
    ...found.map((place) => `- ${place}`),
    "",
  ];
  lines.push(...head("Key", "Type", "Default", "Rule", "Meaning"));
  for (const key of Object.keys(table.rows).sort()) {
    const leaf = table.rows[key];
    if (leaf === undefined) continue;
    if (leaf.kind === "object")
      lines.push(row(code(key), typeOf(leaf) || "keys", "", "", leaf.table.about));
    else
      lines.push(row(code(key), typeOf(leaf), defaultText(leaf), wantedOf(leaf), aboutText(leaf)));
  }
  return [...lines, ""];
}

/** Keys that have an effect, and then those that have none. */
function keySection(process: ProcessName): readonly string[] {
  const rows = leaves(PROCESSES[process].table) satisfies readonly ConfigLeaf[];
  const lines = [
    `## Keys of the ${process}`,
    "",
    ...head("Key", "Default", "Environment name", "Meaning"),
  ];
  for (const { path, row: leaf } of rows) {
    if (ineffectiveReason(process, path, "process") !== undefined) continue;
    const name = code(nameOf(process, path, "leaf"));
    lines.push(row(code(path), defaultText(leaf), name, aboutText(leaf)));
  }
  return [...lines, "", ...withoutEffect(process)];
}

function withoutEffect(process: ProcessName): readonly string[] {
  const names = leaves(PROCESSES[process].table).map(({ path }) => path);
  const lines = [
    `### Keys of the ${process} without effect`,
    "",
    `These keys are accepted and validated, so that existing configurations load, but have no effect. Sluice logs each one that is set, once, at start. Others have no effect as the process is configured (\`dist_cache.…\` without \`counters.engine: peers\`, say): \`sluice ${process} config\` marks both. \`…\` stands for all keys of an object.`,
    "",
    ...head("Key", "Keys", "Why"),
  ];
  for (const { path, keys, why, onlyAsPart } of ineffectiveGroups(process)) {
    const whole = names.includes(path) ? path : `${path}.…`;
    const reason = onlyAsPart ? `in standalone: ${why}` : why;
    lines.push(row(code(whole), String(keys), reason));
  }
  const each = names
    .filter((path) => ineffectiveReason(process, path, "process") !== undefined)
    .map((path) => row(code(path), code(nameOf(process, path, "leaf"))));
  const all = ["<details><summary>Each of these keys with its environment name</summary>", ""];
  return [...lines, "", ...all, ...head("Key", "Environment name"), ...each, "", "</details>", ""];
}

function intro(): readonly string[] {
  return [
    "# Configuration",
    "",
    "<!-- Written by `make docs` from the key tables in `src/config`. Do not edit. -->",
    "",
    "There are three trees of keys: one for the agent, one for the controller, and one for the injector of Kubernetes. `sluice standalone` reads the first two, and `sluice injector` reads the agent's, too, as the configuration of the sidecars that it injects.",
    "`sluice agent config`, `sluice controller config` and `sluice injector config` print the settings in force and the source of each.",
    "",
    "## Sources",
    "",
    "From the weakest to the strongest:",
    "",
    "1. the defaults below;",
    `2. a YAML file: \`--config-path\` names the file, or a directory that holds ${ALL.map((name) => code(`${PROCESSES[name].service}.yaml`)).join(" or ")}; without it ${ALL.map((name) => code(defaultConfigPath(name))).join(" or ")} is read, if it exists; \`sluice standalone\` takes the keys of both from one file;`,
    "3. `.env` files of the working directory in the order of dotenv-flow: `.env.defaults`, `.env`, `.env.local`, `.env.<NODE_ENV>`, `.env.<NODE_ENV>.local` (they never change the environment itself);",
    "4. the environment.",
    "",
    "An explicit `0`, `false`, empty text or empty list overrides a default. `null` counts as not set. Unknown keys and names, wrong types and malformed text are faults (in `.env` files: only in lines that begin with the prefix of the process, because other programs may read the same file): all of them are reported together, without the values of secrets, and the process ends with exit code 64.",
    "",
    "## Environment names",
    "",
    "A name is the prefix (`SVC_AGENT_`, `SVC_CONTROLLER_` or `SVC_INJECTOR_`) and the key path in upper case with `_` between its parts. The name of an object, followed by `_`, takes the whole object as JSON; names of single keys inside it take precedence.",
    "",
    ...head("Type", "Text"),
    row("bool", "`1 t T TRUE true True 0 f F FALSE false False`"),
    row("numbers", "decimal, without any other text"),
    row(
      "duration",
      `\`10s\`, \`1m30s\`, \`100ms\`, \`0\`; units ns, us, ms, s, m, h; at most ${LONGEST_MS / 3_600_000}h`,
    ),
    row(
      "lists",
      "`a,b`, `[a,b]` or JSON; an item with blanks around it or commas needs JSON, and `[]` is the empty list. Lists of objects and maps as JSON",
    ),
    "",
    "Names that Kubernetes makes for services (`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_PORT`, `…_PORT_80_TCP` and the like), and `POD_NAME`, `POD_NAMESPACE`, `NODE_NAME` and `POD_IP` under the prefix, are ignored.",
    "",
  ];
}

/** The text of `docs/configuration.md`. */
export function configurationPage(): string {
  const sections = [...objectTables().values()]
    .toSorted((one, other) => (one.table.name < other.table.name ? -1 : 1))
    .flatMap(({ table, found }) => objectSection(table, found));
  const lines = [...intro(), ...ALL.flatMap(keySection), "## Objects", "", ...sections];
  return `${lines.join("\n").trimEnd()}\n`;
}
