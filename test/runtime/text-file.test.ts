import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readTextFile, readTextFileOrPipe } from "#runtime/life/text-file.ts";
import { folderOf } from "../kit/folder.ts";

test("a regular file is read, also through a link; anything else is refused by name without being opened", async (t) => {
  const folder = folderOf(t, { "a.yaml": "ä: 1", "empty.yaml": "" });
  const at = (name: string) => join(folder, name);
  symlinkSync(at("a.yaml"), at("link.yaml"));
  assert.equal(await readTextFile(at("link.yaml"), 100), "ä: 1");
  assert.equal(await readTextFile(at("empty.yaml"), 100), "");
  execFileSync("mkfifo", [at("pipe.yaml")]);
  symlinkSync("/dev/zero", at("zero.yaml"));
  mkdirSync(at("folder.yaml"));
  symlinkSync(at("loop.yaml"), at("loop.yaml"));
  const refusals = {
    "pipe.yaml": /pipe\.yaml: wanted a regular file, got a pipe/,
    "zero.yaml": /zero\.yaml: wanted a regular file, got a device/,
    "folder.yaml": /folder\.yaml: wanted a regular file, got a directory/,
    "loop.yaml": /loop\.yaml: wanted a file that can be read, got /,
    "none.yaml": /none\.yaml: wanted a file that can be read, got /,
  };
  for (const [name, message] of Object.entries(refusals)) {
    await assert.rejects(readTextFile(at(name), 100), message);
  }
  await assert.rejects(readTextFile(at("a.yaml"), 4), /a\.yaml: wanted at most 4 bytes, got 5/);
});

test("commands of a terminal also read pipes, to their end and up to the same bound", async (t) => {
  const pipe = join(folderOf(t), "pipe.yaml");
  execFileSync("mkfifo", [pipe]);
  const given = async (text: string, maxBytes: number) => {
    const writer = spawn("sh", ["-c", 'printf %s "$1" > "$2"', "sh", text, pipe]);
    const ended = once(writer, "close");
    try {
      return await readTextFileOrPipe(pipe, maxBytes);
    } finally {
      writer.kill();
      await ended;
    }
  };
  assert.equal(await given("ä: 1", 100), "ä: 1");
  assert.equal(await given("", 100), "");
  await assert.rejects(given("12345", 4), /pipe\.yaml: wanted at most 4 bytes, got more/);
});

test("bytes that are not UTF-8 are refused wherever they are, with their line", async (t) => {
  const folder = folderOf(t, { "bad.yaml": "" });
  const path = join(folder, "bad.yaml");
  const bad = Buffer.from([0xff]);
  const texts: readonly (readonly [readonly Buffer[], number])[] = [
    [[bad], 1],
    [[Buffer.from("ä: 1\n"), bad], 2],
    [[Buffer.from("# ä\n".repeat(20_000)), bad, Buffer.from("\na: 1\n")], 20_001],
    [[Buffer.from("a: 1\n\n"), Buffer.from("ä").subarray(0, 1), Buffer.from("\n")], 3],
  ];
  for (const [parts, line] of texts) {
    writeFileSync(path, Buffer.concat(parts));
    const message = new RegExp(`bad\\.yaml: wanted UTF-8 text, got other bytes in line ${line}$`);
    await assert.rejects(readTextFile(path, 1_000_000), message);
    await assert.rejects(readTextFileOrPipe(path, 1_000_000), message);
  }
});
