// The leadership of a controller: of all those that share a store, one runs policies. The others wait, and one of them
// takes over when the leader ends or its lease does.

import { uuid } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { SluiceProcess } from "#process/process.ts";
import type { Leadership, Store } from "#store/store.ts";
import { CONTROLLER_ELECTION } from "#sync/keys.ts";

/**
 * Resolves when this process leads, with a store in which it writes only as long as that is so. Losing the leadership
 * ends the process, which its supervisor starts again as a candidate.
 */
export async function leadIn({
  store,
  chance,
  clock,
  log: processLog,
  health,
  scope,
  fail,
}: SluiceProcess): Promise<Store> {
  const log = processLog.child("leadership");
  const status = health.root.at("system", "leadership");
  const candidate = uuid(chance);
  const stop = new AbortController();
  scope.add("candidacy", async () => stop.abort());
  status.ok(`standing by as ${candidate}`);
  log.info({ candidate }, "standing by until this controller leads");
  const leadership = await store.lead(CONTROLLER_ELECTION, stop.signal, candidate);
  const since = new Date(clock.wall()).toISOString();
  status.ok(`leads as ${candidate} since ${since}`);
  log.info({ candidate }, "this controller leads");
  let resigned = false;
  scope.add("leadership", async () => {
    resigned = true;
    // A store that is away must not keep the process from ending: the lease expires by itself.
    await leadership.resign().catch(() => undefined);
  });
  leadership.lost.addEventListener("abort", () => {
    if (!resigned)
      fail("this controller no longer leads: its lease has expired, or another controller leads");
  });
  return guarded(store, leadership);
}

function guarded(store: Store, { guard }: Leadership): Store {
  return {
    list: (prefix) => store.list(prefix),
    lease: (options) => store.lease(options),
    watch: (prefixes, signal) => store.watch(prefixes, signal),
    lead: (name, signal, candidate) => store.lead(name, signal, candidate),
    close: () => store.close(),
    async commit(ops, options = {}) {
      const { guards = [] } = options;
      const revision = await store.commit(ops, { ...options, guards: [guard, ...guards] });
      if (revision !== undefined || guards.length > 0) return revision;
      throw new Fault("ABORTED", "this controller no longer leads");
    },
  };
}
