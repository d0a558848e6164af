// Writes the reference page of all configuration keys. The committed page under `docs/` must equal it.

import { covers, INEFFECTIVE, ineffectiveReason } from "#config/ineffective.ts";
import { defaultConfigPath } from "#config/load.ts";
import { nameOf } from "#config/read/variables.ts";
import type { LeafRow, Row, Table } from "#config/table/row.ts";
import { LONGEST_MS, wantedOf } from "#config/table/value.ts";
import { branches, joined, leaves, PROCESSES, type ProcessName } from "#config/tree.ts";

const ALL: readonly ProcessName[] = ["agent", "controller", "injector"];

const OWN = "†";
const SECRET = "‡";

/** A key, or an object that is described elsewhere, with the processes that have it. */
interface Entry {
  readonly path: string;
  readonly row: Row;
  readonly processes: readonly ProcessName[];
}

function code(text: string): string {
  return `\`${text}\``;
}

function row(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function head(...cells: readonly string[]): readonly string[] {
  return [row(...cells), `|${" --- |".repeat(cells.length)}`];
}

function defaultText(leaf: LeafRow): string {
  if (leaf.kind === "headers") return code("{}");
  if (leaf.kind === "objects") return code("[]");
  return code(
    typeof leaf.default === "string" ? leaf.default || '""' : JSON.stringify(leaf.default),
  );
}

/** Rows of a table and of the objects inside it, except of objects in `shared`, which stand for themselves. */
function rowsOf(
  table: Table,
  shared: ReadonlySet<Table>,
  path = "",
): readonly (readonly [path: string, row: Row])[] {
  return Object.keys(table.rows)
    .sort()
    .flatMap((key) => {
      const found = table.rows[key];
      const here = joined(path, key);
      if (found === undefined) return [];
      if (found.kind === "objects")
        return [[here, found] as const, ...rowsOf(found.table, shared, `${here}[]`)];
      if (found.kind !== "object" || shared.has(found.table)) return [[here, found] as const];
      const inside = rowsOf(found.table, shared, here);
      return found.table.about === "" ? inside : [[`${here}.…`, found] as const, ...inside];
    });
}

/** Named objects that are used at several paths. */
function sharedTables(): ReadonlySet<Table> {
  const paths = new Map<Table, Set<string>>();
  const note = (table: Table, path: string): void => {
    for (const found of branches(table, path))
      paths.set(found.table, (paths.get(found.table) ?? new Set()).add(found.path));
    for (const { path: at, table: of } of branches(table, path))
      for (const [key, item] of Object.entries(of.rows))
        if (item.kind === "objects") note(item.table, `${joined(at, key)}[]`);
  };
  for (const process of ALL) note(PROCESSES[process].table, "");
  return new Set(
    [...paths].flatMap(([table, { size }]) => (table.name !== "" && size > 1 ? [table] : [])),
  );
}

function keyRow(path: string, found: Row): string {
  if (found.kind === "object") {
    const { name, about } = found.table;
    return path.endsWith("…")
      ? row(code(path), "", "", about)
      : row(code(`${path}.…`), "", `[${name}](#${name.toLowerCase()})`, about);
  }
  const marks = `${found.own === true ? OWN : ""}${found.secret === true ? SECRET : ""}`;
  const about =
    found.deprecated === undefined
      ? found.about
      : `${found.about} Deprecated: ${found.deprecated}.`;
  return row(`${code(path)}${marks && ` ${marks}`}`, defaultText(found), wantedOf(found), about);
}

function keyTable(rows: readonly (readonly [path: string, row: Row])[]): readonly string[] {
  const keys = rows.map(([path, found]) => keyRow(path, found));
  return [...head("Key", "Default", "Accepts", "Meaning"), ...keys, ""];
}

function objectSection(table: Table, shared: ReadonlySet<Table>): readonly string[] {
  return [`### ${table.name}`, "", table.about, "", ...keyTable(rowsOf(table, shared))];
}

/** The keys of all processes, each once; those without effect in any process are left out. */
function entriesOf(shared: ReadonlySet<Table>): readonly Entry[] {
  const found = new Map<string, { path: string; row: Row; processes: ProcessName[] }[]>();
  for (const process of ALL)
    for (const [path, each] of rowsOf(PROCESSES[process].table, shared)) {
      const [key = ""] = path.split(/\[|\.…/);
      const same = found.get(path)?.find((other) => isSame(other.row, each));
      if (ineffectiveReason(process, key, "process") !== undefined) continue;
      if (same !== undefined) same.processes.push(process);
      else found.set(path, [...(found.get(path) ?? []), { path, row: each, processes: [process] }]);
    }
  return [...found.values()].flat();
}

function isSame(one: Row, other: Row): boolean {
  if (one === other) return true;
  return one.kind === "object" && other.kind === "object" && one.table === other.table;
}

const SECTIONS: readonly (readonly [title: string, processes: readonly ProcessName[]])[] = [
  ["Keys of every process", ALL],
  ["Keys of agents and controllers", ["agent", "controller"]],
  ["Keys of controllers and injectors", ["controller", "injector"]],
  ["Keys of agents and injectors", ["agent", "injector"]],
  ["Keys of the agent", ["agent"]],
  ["Keys of the controller", ["controller"]],
  ["Keys of the injector", ["injector"]],
];

function keySections(shared: ReadonlySet<Table>): readonly string[] {
  const entries = entriesOf(shared);
  return SECTIONS.flatMap(([title, processes]) => {
    const own = entries.filter((entry) => String(entry.processes) === String(processes));
    // An object comes before its keys.
    const order = (path: string) => path.replace("…", "");
    const rows = own
      .map(({ path, row: each }) => [path, each] as const)
      .toSorted(([one], [other]) => (order(one) < order(other) ? -1 : 1));
    return rows.length === 0 ? [] : [`## ${title}`, "", ...keyTable(rows)];
  });
}

function withoutEffect(): readonly string[] {
  const groups = new Map<string, { readonly cells: readonly string[]; processes: ProcessName[] }>();
  for (const process of ALL) {
    const keys = leaves(PROCESSES[process].table).map(({ path }) => path);
    // The first entry that is about a key counts.
    const entries = keys.flatMap(
      (key) => INEFFECTIVE[process].find((entry) => covers(entry, key)) ?? [],
    );
    for (const { path, why } of new Set(entries)) {
      const alone = ineffectiveReason(process, path, "process");
      const cells = [
        code(keys.includes(path) ? path : `${path}.…`),
        alone === undefined ? `in standalone: ${why}` : why,
      ];
      const id = cells.join("\n");
      groups.set(id, {
        cells,
        processes: [...(groups.get(id)?.processes ?? []), process],
      });
    }
  }
  return [
    "## Keys without effect",
    "",
    "These keys are accepted and validated, so that existing configurations load, but have no effect. Sluice logs each one that is set, once, at start. Other keys have no effect as a process is configured (`dist_cache.…` without `counters.engine: peers`, say). `sluice agent config` and its sisters mark both.",
    "",
    ...head("Key", "Process", "Why"),
    ...[...groups.values()].map(({ cells: [key = "", why = ""], processes }) =>
      row(key, processes.join(", "), why),
    ),
    "",
  ];
}

function intro(): readonly string[] {
  const services = ALL.map((name) => code(`${PROCESSES[name].service}.yaml`)).join(" or ");
  const paths = ALL.map((name) => code(defaultConfigPath(name))).join(" or ");
  const variable = (path: string, kind: "leaf" | "object", value: string) =>
    row(code(path), code(`${nameOf("agent", path, kind)}=${value}`));
  return [
    "# Configuration",
    "",
    "<!-- Written by `make docs` from the key tables in `src/config`. Do not edit. -->",
    "",
    "There are three trees of keys: one for the agent, one for the controller, and one for the injector of Kubernetes. `sluice standalone` reads the first two. `sluice injector` also reads the agent's, as the configuration of the sidecars that it injects.",
    "`sluice agent config`, `sluice controller config` and `sluice injector config` print the settings in force and the source of each.",
    "",
    "## Sources",
    "",
    "From the weakest to the strongest:",
    "",
    "1. the defaults below;",
    `2. a YAML file: \`--config-path\` names the file, or a directory that holds ${services}. Without it, ${paths} is read, if it exists. \`sluice standalone\` takes the keys of both trees from one file;`,
    "3. `.env` files of the working directory in the order of dotenv-flow: `.env.defaults`, `.env`, `.env.local`, `.env.<NODE_ENV>`, `.env.<NODE_ENV>.local`. They never change the environment itself;",
    "4. the environment.",
    "",
    "An explicit `0`, `false`, empty text or empty list overrides a default. `null` counts as not set. Unknown keys and names, wrong types and malformed text are faults. In `.env` files, which other programs may read, this holds only for lines that begin with the prefix of the process. All faults are reported together, without the values of secrets, and the process ends with exit code 64.",
    "",
    "## Environment names",
    "",
    "The name of a variable is the prefix of the process (`SVC_AGENT_`, `SVC_CONTROLLER_` or `SVC_INJECTOR_`) and the key in upper case with `_` between its parts. The name of an object, followed by `_`, takes the whole object as JSON; variables for single keys inside it take precedence.",
    "",
    ...head("Key of the agent", "Variable"),
    variable("log.level", "leaf", "debug"),
    variable("etcd.endpoints", "leaf", "etcd-0:2379,etcd-1:2379"),
    variable("server.tls", "object", '{"enabled":true,"cert_file":"a.crt","key_file":"a.key"}'),
    "",
    ...head("Type", "Text"),
    row("true or false", "`1 t T TRUE true True 0 f F FALSE false False`"),
    row("numbers", "decimal, without any other text"),
    row(
      "duration",
      `\`10s\`, \`1m30s\`, \`100ms\`, \`0\`; units ns, us, ms, s, m, h; at most ${LONGEST_MS / 3_600_000}h`,
    ),
    row(
      "lists",
      "`a,b`, `[a,b]` or JSON; an item that contains a comma, or begins or ends with a blank, needs JSON. `[]` is the empty list. Lists of objects and maps are written as JSON",
    ),
    "",
    "Names that Kubernetes makes for services (`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_PORT`, `…_PORT_80_TCP` and the like), and `POD_NAME`, `POD_NAMESPACE`, `NODE_NAME` and `POD_IP` under the prefix, are ignored.",
    "",
    "## How to read the tables",
    "",
    `${OWN} marks a key that is specific to Sluice: the reference implementation does not have it. ${SECRET} marks a secret, which is shown as \`***\`. \`a.b.…\` stands for all keys of an object: they follow in the same table, or in a table of their own under [Objects](#objects) where several keys hold such an object. \`a.b[].c\` is a key of each object of the list \`a.b\`, which a variable takes as JSON.`,
    "",
  ];
}

/** The text of `docs/configuration.md`. */
export function configurationPage(): string {
  const shared = sharedTables();
  const objects = [...shared]
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((table) => objectSection(table, shared));
  const lines = [
    ...intro(),
    ...keySections(shared),
    ...withoutEffect(),
    "## Objects",
    "",
    ...objects,
  ];
  return `${lines.join("\n").trimEnd()}\n`;
}
