// The links to the other members: one for each, opened and closed with its membership.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { Slices } from "#runtime/life/slices.ts";
import { NO_REQUESTS, type RequestCounts } from "../../requests.ts";
import type { Ring, RingMember } from "../membership/ring.ts";
import type { OwnedLimiter } from "../owned-limiters.ts";
import { Copies } from "./copies.ts";
import { type Caller, Link } from "./link.ts";

export interface PeerLinksOptions {
  /** Process id of this agent, as its record has it. */
  readonly id: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Time limit of a request, ms. */
  readonly timeoutMs: number;
  readonly probeMs: number;
  /** Most requests to one agent without a reply. */
  readonly most: number;
  readonly connect: (member: RingMember) => Caller;
  /** Called with a description of the agents that do not answer, or undefined when all answer. */
  readonly changed: (away: string | undefined) => void;
}

/** An answer waits for copies for at most this part of the time limit, so that it still arrives in time. */
const COPIED_WITHIN = 0.5;

interface PeerLink {
  readonly link: Link;
  readonly copies: Copies;
}

export class PeerLinks {
  /** Messages with copies that did not arrive in time. */
  copiesLost = 0;
  #number = 0;
  /** Time slices in which hand-overs to all agents are written. */
  readonly #slices: Slices;
  readonly #options: PeerLinksOptions;
  /** By process id. */
  readonly #all = new Map<string, PeerLink>();
  /** Links to agents that have left, until their pending requests have ended. */
  readonly #leaving = new Set<Link>();
  /** Requests to agents that have left. */
  readonly #past: RequestCounts = { ...NO_REQUESTS };

  constructor(options: PeerLinksOptions) {
    this.#options = options;
    this.#slices = new Slices(options.clock);
  }

  /** The agents that cannot be asked, each with the reason; undefined while all answer. */
  get away(): string | undefined {
    const away = [...this.#all.values()].flatMap(({ link }) => {
      const { reason } = link.requests;
      return reason === undefined ? [] : [`${link.member.name} (${reason})`];
    });
    return away.length === 0 ? undefined : away.join(", ");
  }

  get requests(): RequestCounts {
    const sum = { ...this.#past };
    for (const { link } of this.#all.values()) add(sum, link.requests.counts);
    for (const link of this.#leaving) add(sum, link.requests.counts);
    return sum;
  }

  link(id: string): Link | undefined {
    return this.#all.get(id)?.link;
  }

  /** Copies a bucket that changed; undefined when this agent has no link to the member. */
  copy(id: string, limiter: OwnedLimiter, lo: number, hi: number): Promise<void> | undefined {
    return this.#all.get(id)?.copies.changed(limiter, lo, hi);
  }

  /** Opens links to new members, and drains those to members that have gone. */
  set(ring: Ring): void {
    for (const [id, { link, copies }] of this.#all) {
      if (ring.find(id)?.address !== link.member.address) this.#leave(id, link);
      else copies.forget();
    }
    for (const member of ring.members) {
      if (member.id !== this.#options.id && !this.#all.has(member.id)) this.#open(member);
    }
  }

  close(): void {
    for (const [id, { link }] of this.#all) this.#leave(id, link);
    for (const link of this.#leaving) link.close();
  }

  #open(member: RingMember): void {
    const { id: from, connect, clock, log, timeoutMs, probeMs, most } = this.#options;
    const link = new Link({
      member,
      from,
      clock,
      timeoutMs,
      probeMs,
      most,
      caller: connect(member),
      number: () => ++this.#number,
      slices: this.#slices,
      changed: (reason) => this.#changed(member, reason),
    });
    const waitMs = timeoutMs * COPIED_WITHIN;
    const copies = new Copies(link, clock, waitMs, (thrown) => {
      this.copiesLost++;
      if (thrown === undefined) return;
      const { name } = member;
      log.error({ peer: name, error: thrown }, `peer ${name} could not be sent copies`);
    });
    this.#all.set(member.id, { link, copies });
    log.debug?.({ peer: member.name, address: member.address }, "opened a link to a peer");
  }

  #leave(id: string, link: Link): void {
    this.#all.delete(id);
    const { requests, member } = link;
    const { name: peer, address } = member;
    this.#options.log.debug?.({ peer, address }, "closing the link to a peer");
    if (requests.reason !== undefined) {
      requests.counts.back++;
      this.#options.log.info({ peer }, `peer ${peer} is gone, others count its keys`);
      this.#options.changed(this.away);
    }
    this.#leaving.add(link);
    void requests.drain().then(() => {
      this.#leaving.delete(link);
      add(this.#past, requests.counts);
    });
  }

  #changed({ name }: RingMember, reason: string | undefined): void {
    const { log, changed } = this.#options;
    if (reason === undefined) log.info({ peer: name }, `peer ${name} answers again`);
    else {
      const away = `peer ${name} is away, on_failure answers for its keys: ${reason}`;
      log.error({ peer: name }, away);
    }
    changed(this.away);
  }
}

function add(sum: RequestCounts, more: RequestCounts): void {
  for (const key of Object.keys(sum) as (keyof RequestCounts)[]) sum[key] += more[key];
}
