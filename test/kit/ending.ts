// The part of a test that the kit needs: to be told when it ends. A suite that shares a server among its tests has it too.

import { after } from "node:test";

export interface Ending {
  after(clean: () => unknown): void;
}

/** For use inside `describe`: what is registered runs when the suite has ended, the latest first. */
export function suiteEnding(): Ending {
  const cleaning: (() => unknown)[] = [];
  after(async () => {
    for (const clean of cleaning.reverse()) await clean();
  });
  return { after: (clean) => void cleaning.push(clean) };
}
