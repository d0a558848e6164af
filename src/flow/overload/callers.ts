// Divides the time for judging among callers by max-min fairness: a caller that asks for less than the level gets all of it,
// and the others are cut to the level. Callers are the sources of flows, and the keys within a source that asks for much.

/** A caller as two seeded hashes; 0 where nothing is known. */
export interface Caller {
  readonly source: number;
  readonly key: number;
}

const NOT_KNOWN = 0;
export const UNKNOWN_CALLER: Caller = { source: NOT_KNOWN, key: NOT_KNOWN };

/** Accounts of one group. All other callers of it share one. */
const MAX_ACCOUNTS = 1_024;
/** While there are fewer accounts, a source gets one with its first check; otherwise, like a key, with its second. */
const FREE_ACCOUNTS = MAX_ACCOUNTS / 2;
/** Slots for hashes of callers that have come once, each in the slot of its last bits. */
const NEWCOMER_SLOTS = 4_096;

/** The keys of a source have accounts from this part of all time on, until the source asks for less than half of that. */
const KEYS_FROM = 1 / 16;
/** Callers above the level are costly if at least this part of their group is below it; otherwise all ask for too much. */
const MIN_MODEST = 0.25;
/** A key that asks for more than this part of all time is costly in any case. */
const HEAVY = 0.5;

/** The part of the sums that each renewal keeps: arrivals of half a second ago hardly count. */
const KEPT = 0.95;
/** An account with fewer recent arrivals is closed. */
const MIN_ARRIVALS = 0.05;

/** Recent checks of one caller, or of all without an account of their own, and the time that judging them took. */
class Account {
  /** False for the account of all callers without one. */
  readonly isKnown: boolean;
  arrived = 0;
  judged = 0;
  /** Time that judging took, ms. */
  judging = 0;
  /** The part of its checks above the level. */
  share: number;
  /** It is shed because of its own cost. */
  costly: boolean;
  /** Time that judging all of its checks would take, ms. */
  demand = 0;
  keys: Group | undefined;

  constructor(share = 0, costly = false, isKnown = false) {
    this.share = share;
    this.costly = costly;
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
  /** The account of all callers without one. */
  readonly others: Account;
  readonly #accounts = new Map<number, Account>();
  readonly #seen = new Uint32Array(NEWCOMER_SLOTS);
  /** True if the callers are keys, which a source may invent. */
  readonly #ofKeys: boolean;

  constructor(ofKeys: boolean, others = new Account()) {
    this.#ofKeys = ofKeys;
    this.others = others;
  }

  of(id: number): Account {
    const known = this.#accounts.get(id);
    if (known !== undefined) return known;
    if (!this.#admits(id)) return this.others;
    // A newcomer begins with the share of all without an account.
    const { share, costly } = this.others;
    const account = new Account(share, costly, id !== NOT_KNOWN);
    this.#accounts.set(id, account);
    return account;
  }

  /** Number of accounts, including those of keys. */
  get size(): number {
    let size = this.#accounts.size;
    for (const { keys } of this.#accounts.values()) size += keys?.size ?? 0;
    return size;
  }

  /**
   * Computes the excess of each caller if only `part` of the demand can be met. `usual` is the assumed cost of a check for
   * callers without a judged one, ms. A caller that asks for more than `heavy` ms is costly in any case.
   */
  renew(part: number, usual: number, heavy: number): void {
    const all = [this.others, ...this.#accounts.values()];
    let total = 0;
    for (const account of all) {
      account.demand = account.arrived * account.cost(usual);
      total += account.demand;
    }
    const level = levelOf(all, part * total);
    const active = all.filter(({ arrived }) => arrived >= MIN_ARRIVALS);
    const modest = active.filter(({ demand }) => demand <= level).length;
    const uneven = modest > 0 && modest >= MIN_MODEST * active.length;
    for (const account of all) {
      const { demand } = account;
      account.share = demand > level ? 1 - level / demand : 0;
      account.costly = account.share > 0 && (uneven || (demand > heavy && account.isKnown));
      if (!this.#ofKeys) renewKeys(account, total, usual);
      account.age();
    }
    for (const [id, { arrived }] of this.#accounts)
      if (arrived < MIN_ARRIVALS) this.#accounts.delete(id);
  }

  /** True if a caller gets an account now. Invented callers come once, so they get none. */
  #admits(id: number): boolean {
    const { size } = this.#accounts;
    if (id === NOT_KNOWN || (!this.#ofKeys && size < FREE_ACCOUNTS)) return true;
    const at = id % NEWCOMER_SLOTS;
    const again = this.#seen[at] === id;
    this.#seen[at] = id;
    return again && size < MAX_ACCOUNTS;
  }
}

function renewKeys(account: Account, total: number, usual: number): void {
  const { demand, keys, share, costly } = account;
  if (demand <= (KEYS_FROM * total) / 2) account.keys = undefined;
  else if (keys !== undefined) keys.renew(1 - share, usual, HEAVY * total);
  else if (demand > KEYS_FROM * total) account.keys = new Group(true, new Account(share, costly));
}

/** The level to which demands are cut, so that together they take the available time. */
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
  /** Recent checks of all callers. */
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

  /** The excess of the caller of the last check, as a part of its checks. */
  get share(): number {
    return (this.#key ?? this.#source)?.share ?? 0;
  }

  /** True if the caller of the last check is shed because of its own cost. */
  get costly(): boolean {
    return this.#source?.costly === true || this.#key?.costly === true;
  }

  /** Charges the time that judging took to the caller of the last check. */
  judged(ms: number): void {
    this.#all.judge(ms);
    this.#source?.judge(ms);
    this.#key?.judge(ms);
  }

  /** Decides by the counts so far from now on. Only `part` of the demand can be met. */
  renew(part: number): void {
    this.#sources.renew(part, this.#all.cost(0), Number.POSITIVE_INFINITY);
    this.#all.age();
  }

  /** Number of sources and keys with an account. */
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
