// The import graph of the source tree: what a file imports, and which files import each other in a circle.

import { dirname, join } from "node:path";

const IMPORT = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*)"([^"]+)"/g;

/** Everything that a file imports, as written: type-only and dynamic imports too. */
export function importsOf(text: string): readonly string[] {
  return [...text.matchAll(IMPORT)].map(([, target = ""]) => target);
}

/** Path in the repository of an import of the tree's own; undefined for a package. */
export function fileOf(importer: string, target: string): string | undefined {
  if (target.startsWith("#gen/")) return join("proto", target.slice(1));
  if (target.startsWith("#")) return join("src", target.slice(1));
  return target.startsWith(".") ? join(dirname(importer), target) : undefined;
}

/**
 * Groups of files of which each one imports every other, directly or through others: the strongly connected
 * components of the import graph (Tarjan's algorithm). Files come as paths and texts.
 */
export function circlesIn(
  files: readonly (readonly [path: string, text: string])[],
): readonly (readonly string[])[] {
  const imported = new Map(
    files.map(([path, text]) => [path, importsOf(text).map((target) => fileOf(path, target))]),
  );
  const indexes = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];

  /** Returns the lowest index of a file on the stack that can be reached from this one. */
  const visit = (file: string): number => {
    const index = indexes.size;
    indexes.set(file, index);
    stack.push(file);
    let lowest = index;
    for (const next of imported.get(file) ?? []) {
      if (next === undefined || !imported.has(next)) continue;
      const seen = indexes.get(next);
      if (seen === undefined) lowest = Math.min(lowest, visit(next));
      else if (stack.includes(next)) lowest = Math.min(lowest, seen);
    }
    if (lowest === index) {
      const circle = stack.splice(stack.indexOf(file));
      if (circle.length > 1) circles.push(circle.sort());
    }
    return lowest;
  };

  for (const file of imported.keys()) if (!indexes.has(file)) visit(file);
  return circles;
}
