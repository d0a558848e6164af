// Divides the time for judging among callers: the sources of flows, and the keys within a source that asks for much. A
// caller that asks for less than the fair level gets all of it, and one that asks for more is cut to it (max-min fairness).

/** A caller as two seeded hashes; 0 where nothing is known. */
export interface Caller {
  readonly source: number;
  readonly key: number;
}

const NOT_KNOWN = 0;
export const UNKNOWN_CALLER: Caller = { source: NOT_KNOWN, key: NOT_KNOWN };

/** Callers of one group that are told apart; all others of it count as one. */
const MAX_ACCOUNTS = 1_024;
/** While there are fewer, a source gets an account with its first check; otherwise, like a key, with its second. */
const FREE_ACCOUNTS = MAX_ACCOUNTS / 2;
/** Hashes that are remembered of callers that have come once, each in the slot of its last bits. */
const NEWCOMER_SLOTS = 4_096;

/** The keys of a source are told apart once it asks for this part of all time, and until it asks for less than half of that. */
const TELL_KEYS_FROM = 1 / 16;
/** Callers above the level are costly when at least this part of their group is below it: otherwise all ask for too much. */
const MIN_MODEST = 0.25;
/** A key is costly as well when it asks for more than this part of all time, even if nobody else asks. */
const HEAVY = 0.5;

/** The part of the sums that is kept at each renewal: what arrived half a second ago hardly counts. */
const KEPT = 0.95;
/** An account with fewer recent arrivals is closed. */
const MIN_ARRIVALS = 0.05;

/** Recent checks of one caller, or of all that are not told apart, and the time that judging them took. */
class Account {
  /** This is one caller, and not all those that are not told apart. */
  readonly isKnown: boolean;
  arrived = 0;
  judged = 0;
  /** Time that judging took, ms. */
  judging = 0;
  /** The part of its checks that is too much. */
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
  /** The account of all callers that have none of their own. */
  readonly others: Account;
  readonly #accounts = new Map<number, Account>();
  readonly #seen = new Uint32Array(NEWCOMER_SLOTS);
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
    const { share, costly } = this.others;
    const account = new Account(share, costly, id !== NOT_KNOWN);
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
   * Computes each caller's excess when only `part` of the time that all ask for is available. `usual` is the assumed cost of a
   * check of a caller that has none judged yet, ms. A caller that asks for more than `heavy` ms is costly, whatever others do.
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
      if (!this.#ofKeys) tellKeys(account, total, usual);
      account.age();
    }
    for (const [id, { arrived }] of this.#accounts)
      if (arrived < MIN_ARRIVALS) this.#accounts.delete(id);
  }

  /** Whether a caller gets an account now. Invented callers come once, so they share one and take no places. */
  #admits(id: number): boolean {
    const { size } = this.#accounts;
    if (id === NOT_KNOWN || (!this.#ofKeys && size < FREE_ACCOUNTS)) return true;
    const at = id % NEWCOMER_SLOTS;
    const again = this.#seen[at] === id;
    this.#seen[at] = id;
    return again && size < MAX_ACCOUNTS;
  }
}

function tellKeys(account: Account, total: number, usual: number): void {
  const { demand, keys, share, costly } = account;
  if (demand <= (TELL_KEYS_FROM * total) / 2) account.keys = undefined;
  else if (keys !== undefined) keys.renew(1 - share, usual, HEAVY * total);
  else if (demand > TELL_KEYS_FROM * total)
    account.keys = new Group(true, new Account(share, costly));
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

  /** The part of its checks that the caller of the last check sends in excess, 0 to 1. */
  get share(): number {
    return (this.#key ?? this.#source)?.share ?? 0;
  }

  /** The caller of the last check is shed because of its own cost. */
  get costly(): boolean {
    return this.#source?.costly === true || this.#key?.costly === true;
  }

  /** Charges the time that judging took to the caller of the last check. */
  judged(ms: number): void {
    this.#all.judge(ms);
    this.#source?.judge(ms);
    this.#key?.judge(ms);
  }

  /** Makes the counts so far the base of decisions when only `part` of the time that all ask for is available. */
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
