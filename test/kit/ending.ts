// The part of a test's context that the kit needs: registering what runs when the test ends. Suites that share a server
// among their tests have it too.

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
