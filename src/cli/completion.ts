// `sluice completion bash|zsh|fish`: a script that completes commands, flags and their values in a shell. It is made
// from the table of subcommands, so it cannot differ from what `--help` lists.

import { Fault } from "#base/fault.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Argument, argumentsOf } from "./flags.ts";
import { type Command, SUBCOMMANDS } from "./subcommands.ts";

interface Entry {
  /** One or two words. */
  readonly words: readonly string[];
  readonly about: string;
  readonly flags: readonly Argument[];
  /** The words that may follow, if there is a fixed list of them. */
  readonly choices: readonly string[];
}

/** The words for values that are files. */
const FILES: ReadonlySet<string> = new Set(["FILE", "FILE.svg", "PATH", "DIR"]);

export const completionCommand: Command<"completion"> = async ({ operands }, terminal) => {
  const [shell, ...more] = operands;
  const write = SCRIPTS.get(shell ?? "");
  if (write === undefined || more.length > 0) {
    const got = operands.length === 0 ? "nothing" : JSON.stringify(operands.join(" "));
    const wanted = [...SCRIPTS.keys()].join(", ");
    throw new Fault("INVALID_ARGUMENT", `completion: wanted ${wanted}, got ${got}`);
  }
  terminal.out(write(entries()));
  return EXIT.clean;
};

function entries(): readonly Entry[] {
  return Object.entries(SUBCOMMANDS).map(([name, { about, flags }]) => {
    const all = argumentsOf({ ...flags, "--help": "print this help" });
    return {
      words: name.split(" "),
      about,
      flags: all.filter((argument) => argument.name !== ""),
      choices: all.find((argument) => argument.name === "")?.choices ?? [],
    };
  });
}

/** The first words of all commands, each once, with what they are about. */
function firstWords(entries: readonly Entry[]): ReadonlyMap<string, string> {
  const words = new Map<string, string>();
  for (const {
    words: [first = "", second],
    about,
  } of entries) {
    if (second === undefined) words.set(first, about);
    else if (!words.has(first)) words.set(first, `${first} …`);
  }
  return words;
}

/** The words that may follow a first word: second words of commands, or choices. */
function secondWords(entries: readonly Entry[], first: string): ReadonlyMap<string, string> {
  const own = entries.filter(({ words }) => words[0] === first);
  return new Map(
    own.flatMap(({ words, about, choices }) => [
      ...(words[1] === undefined ? [] : [[words[1], about] as const]),
      ...choices.map((choice) => [choice, choice] as const),
    ]),
  );
}

function bash(entries: readonly Entry[]): string {
  const flagsOf = ({ flags }: Entry) => flags.map(({ name }) => `--${name}`).join(" ");
  const first = firstWords(entries);
  const all = entries.flatMap(({ flags }) => flags).filter(({ value }) => value !== "");
  const chosen = new Map(
    all.filter(({ choices }) => choices.length > 0).map(({ name, choices }) => [name, choices]),
  );
  const free = all.filter(({ choices }) => choices.length === 0).map(({ name }) => `--${name}`);
  return `# Completion of sluice for bash. Load it with: source <(sluice completion bash)
_sluice() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words=""
  COMPREPLY=()
  case $prev in
${[...chosen].map(([name, choices]) => `    --${name}) words="${choices.join(" ")}" ;;`).join("\n")}
    ${[...new Set(free)].join("|")}) return ;;
  esac
  if [[ -z $words ]]; then
    case $COMP_CWORD in
      1) words="${[...first.keys(), "help"].join(" ")}" ;;
      2)
        case \${COMP_WORDS[1]} in
${[...first.keys()]
  .map((word) => [word, [...secondWords(entries, word).keys()]] as const)
  .filter(([, second]) => second.length > 0)
  .map(([word, second]) => `          ${word}) words="${second.join(" ")}" ;;`)
  .join("\n")}
          help) words="${[...first.keys()].join(" ")}" ;;
        esac ;;
    esac
  fi
  if [[ $cur == -* ]]; then
    case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${entries
  .filter(({ words }) => words.length === 2)
  .map((entry) => `      "${entry.words.join(" ")}") words="${flagsOf(entry)}" ;;`)
  .join("\n")}
${entries
  .filter(({ words }) => words.length === 1)
  .map((entry) => `      "${entry.words[0]} "*) words="${flagsOf(entry)}" ;;`)
  .join("\n")}
    esac
  fi
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
# Where the script offers nothing, the shell offers files.
complete -o default -F _sluice sluice
`;
}

/** Text between single quotes of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function zsh(entries: readonly Entry[]): string {
  const described = (words: ReadonlyMap<string, string>) =>
    [...words].map(([word, about]) => quoted(`${word}:${about.replaceAll(":", "\\:")}`)).join(" ");
  const first = firstWords(entries);
  const argument = ({ name, about, value, choices }: Argument) => {
    const action =
      choices.length > 0 ? `(${choices.join(" ")})` : FILES.has(value) ? "_files" : " ";
    const meaning = about.replaceAll(/[[\]:]/g, "\\$&");
    return quoted(
      `*--${name}[${meaning}]${value === "" ? "" : `:${choices.length > 0 ? name : value}:${action}`}`,
    );
  };
  const caseOf = (entry: Entry) =>
    `    (${quoted(entry.words.join(" "))}) _arguments ${entry.flags.map(argument).join(" ")} '*:file:_files' ;;`;
  return `#compdef sluice
# Completion of sluice for zsh. Load it with: source <(sluice completion zsh)
_sluice() {
  local -a found
  if (( CURRENT == 2 )); then
    found=(${described(first)})
    _describe command found
    return
  fi
  local command=$words[2]
  if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then
    found=()
    case $command in
${[...first.keys()]
  .map((word) => [word, secondWords(entries, word)] as const)
  .filter(([, second]) => second.size > 0)
  .map(([word, second]) => `      (${word}) found=(${described(second)}) ;;`)
  .join("\n")}
      (help) found=(${described(first)}) ;;
    esac
    if (( $#found )); then
      _describe command found
      return
    fi
  fi
  case "$words[2] $words[3]" in
    (${entries
      .filter(({ words }) => words.length === 2)
      .map(({ words }) => quoted(words.join(" ")))
      .join("|")}) command="$words[2] $words[3]" ;;
  esac
  case $command in
${entries.map(caseOf).join("\n")}
  esac
}
if (( $+functions[compdef] )); then compdef _sluice sluice; fi
`;
}

function fish(entries: readonly Entry[]): string {
  const first = firstWords(entries);
  const seen = (...words: readonly string[]) =>
    words.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
  const lines = [...first].map(
    ([word, about]) =>
      `complete -c sluice -f -n __fish_use_subcommand -a ${word} -d ${quoted(about)}`,
  );
  for (const word of first.keys()) {
    const second = secondWords(entries, word);
    const none = `not ${seen([...second.keys()].join(" "))}`;
    for (const [next, about] of second) {
      const when = quoted(`${seen(word)}; and ${none}`);
      lines.push(`complete -c sluice -f -n ${when} -a ${next} -d ${quoted(about)}`);
    }
  }
  for (const { words, flags } of entries) {
    // `check` must not match in `policy check`, nor `agent` in `agent config`.
    const longer = entries
      .filter((other) => words.length === 1 && other.words.length > 1)
      .flatMap((other) =>
        other.words.filter((word) => word !== words[0] && other.words.includes(words[0] ?? "")),
      )
      .map((word) => seen(word));
    for (const { name, about, value, choices } of flags) {
      const takes =
        value === ""
          ? ""
          : choices.length > 0
            ? ` -x -a ${quoted(choices.join(" "))}`
            : FILES.has(value)
              ? " -r -F"
              : " -x";
      const when = quoted([seen(...words), ...longer].join("; and not "));
      lines.push(`complete -c sluice -n ${when} -l ${name}${takes} -d ${quoted(about)}`);
    }
  }
  const head = "# Completion of sluice for fish. Load it with: sluice completion fish | source";
  return `${[head, ...lines].join("\n")}\n`;
}

const SCRIPTS: ReadonlyMap<string, (entries: readonly Entry[]) => string> = new Map([
  ["bash", bash],
  ["zsh", zsh],
  ["fish", fish],
]);
