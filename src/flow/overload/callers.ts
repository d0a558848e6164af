// Divides the time for judging among those who ask for it: each source of flows, and within a source that asks for much
// each key. Who asks for less than the fair level gets all of it; who asks for more is cut to the level (max-min fairness).

/** A caller as two seeded hashes; 0 where nothing is known. */
export interface Caller {
  readonly source: number;
  readonly key: number;
}

const NOT_KNOWN = 0;
export const UNKNOWN_CALLER: Caller = { source: NOT_KNOWN, key: NOT_KNOWN };

/** Callers of one group that are told apart; all others of it count as one. */
const MOST = 1_024;
/** Up to so many sources get an account at once. Others, and all keys, get one when they come for the second time. */
const FREELY = MOST / 2;
/** Hashes of callers that came once, by their last bits. */
const SEEN_ONCE = 4_096;

/** The keys of a source are told apart while it asks for this part of all time, and until it asks for half of that. */
const TELLS_KEYS = 1 / 16;
/** Callers above the level are dear when at least this part of their group is below it: otherwise all ask for too much. */
const MODEST = 0.25;
/** A key is dear as well when it asks for more than this part of all time, even if nobody else asks. */
const HEAVY = 0.5;

/** The part of the sums that is kept at each renewal: what arrived half a second ago hardly counts. */
const KEPT = 0.95;
/** An account with fewer recent arrivals is closed. */
const LEAST_ARRIVALS = 0.05;

/** What one caller has asked for and taken lately. */
class Account {
  /** It is a single caller, and not all of whom nothing is known. */
  readonly isKnown: boolean;
  arrived = 0;
  judged = 0;
  /** Time that judging took, ms. */
  judging = 0;
  /** The part of its checks that is too much. */
  share: number;
  /** It is shed because of what it costs itself. */
  dear: boolean;
  /** Time that judging all of its checks would take, ms. */
  demand = 0;
  keys: Group | undefined;

  constructor(share = 0, dear = false, isKnown = false) {
    this.share = share;
    this.dear = dear;
    this.isKnown = isKnown;
  }

  judge(ms: number): void {
    this.judged++;
    this.judging += ms;
  }

  /** The time for one of its checks; `usual` where none has been judged. */
  cost(usual: number): number {
    return this.judged > 0 ? this.judging / this.judged : usual;
  }

  age(): void {
    this.arrived *= KEPT;
    this.judged *= KEPT;
    this.judging *= KEPT;
  }
}

class Group {
  /** Those who have no account of their own. */
  readonly others: Account;
  readonly #accounts = new Map<number, Account>();
  readonly #seen = new Uint32Array(SEEN_ONCE);
  /** Keys of one source, which may invent them. */
  readonly #ofKeys: boolean;

  constructor(ofKeys: boolean, others = new Account()) {
    this.#ofKeys = ofKeys;
    this.others = others;
  }

  of(id: number): Account {
    const known = this.#accounts.get(id);
    if (known !== undefined) return known;
    if (!this.#admits(id)) return this.others;
    // A newcomer is treated as all who are not known, until it is.
    const { share, dear } = this.others;
    const account = new Account(share, dear, id !== NOT_KNOWN);
    this.#accounts.set(id, account);
    return account;
  }

  /** Accounts, with those of keys. */
  get size(): number {
    let size = this.#accounts.size;
    for (const { keys } of this.#accounts.values()) size += keys?.size ?? 0;
    return size;
  }

  /**
   * Computes what is too much where `part` of the time that all ask for is there. `usual`: the cost of a check of a caller
   * of whom none was judged, ms. A caller that asks for more than `heavy` milliseconds is dear, whatever others do.
   */
  renew(part: number, usual: number, heavy: number): void {
    const all = [this.others, ...this.#accounts.values()];
    let total = 0;
    for (const account of all) {
      account.demand = account.arrived * account.cost(usual);
      total += account.demand;
    }
    const level = levelOf(all, part * total);
    const active = all.filter(({ arrived }) => arrived >= LEAST_ARRIVALS);
    const modest = active.filter(({ demand }) => demand <= level).length;
    const uneven = modest > 0 && modest >= MODEST * active.length;
    for (const account of all) {
      const { demand } = account;
      account.share = demand > level ? 1 - level / demand : 0;
      account.dear = account.share > 0 && (uneven || (demand > heavy && account.isKnown));
      if (!this.#ofKeys) tellKeys(account, total, usual);
      account.age();
    }
    for (const [id, { arrived }] of this.#accounts)
      if (arrived < LEAST_ARRIVALS) this.#accounts.delete(id);
  }

  /** Invented callers come once: they count as one caller, and take no places of those who come again. */
  #admits(id: number): boolean {
    const { size } = this.#accounts;
    if (id === NOT_KNOWN || (!this.#ofKeys && size < FREELY)) return true;
    const at = id % SEEN_ONCE;
    const again = this.#seen[at] === id;
    this.#seen[at] = id;
    return again && size < MOST;
  }
}

function tellKeys(account: Account, total: number, usual: number): void {
  const { demand, keys, share, dear } = account;
  if (demand <= (TELLS_KEYS * total) / 2) account.keys = undefined;
  else if (keys !== undefined) keys.renew(1 - share, usual, HEAVY * total);
  else if (demand > TELLS_KEYS * total) account.keys = new Group(true, new Account(share, dear));
}

/** The level above which demands are cut, so that together they take as much time as there is. */
function levelOf(accounts: readonly Account[], time: number): number {
  const demands = Float64Array.from(accounts, ({ demand }) => demand).sort();
  let left = time;
  let more = demands.length;
  for (const demand of demands) {
    if (demand * more > left) return left / more;
    left -= demand;
    more--;
  }
  return Number.POSITIVE_INFINITY;
}

export class Callers {
  #sources = new Group(false);
  /** Recent time for judging, of all, and the checks that it was for. */
  #all = new Account();
  /** The caller of the check that is judged now. */
  #source: Account | undefined;
  #key: Account | undefined;

  /** Counts a check that begins. Returns the time that judging it is likely to take, ms. */
  arrived({ source, key }: Caller): number {
    const account = this.#sources.of(source);
    account.arrived++;
    this.#source = account;
    this.#key = account.keys?.of(key);
    if (this.#key !== undefined) this.#key.arrived++;
    return (this.#key ?? account).cost(account.cost(this.#all.cost(0)));
  }

  /** The part of the checks of the caller that came last which is too much. */
  get share(): number {
    return (this.#key ?? this.#source)?.share ?? 0;
  }

  /** The caller that came last is shed because of what it costs itself. */
  get dear(): boolean {
    return this.#source?.dear === true || this.#key?.dear === true;
  }

  /** Charges the time that judging took to the caller that came last. */
  judged(ms: number): void {
    this.#all.judge(ms);
    this.#source?.judge(ms);
    this.#key?.judge(ms);
  }

  /** Makes what was counted so far the base of decisions, where `part` of the time that all ask for is there. */
  renew(part: number): void {
    this.#sources.renew(part, this.#all.cost(0), Number.POSITIVE_INFINITY);
    this.#all.age();
  }

  /** Sources and keys that are told apart now. */
  get known(): number {
    return this.#sources.size;
  }

  /** Forgets all callers. */
  clear(): void {
    if (this.known > 0) this.#sources = new Group(false);
    if (this.#all.judged > 0) this.#all = new Account();
    this.#source = undefined;
    this.#key = undefined;
  }
}
