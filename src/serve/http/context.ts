// The dependencies that all requests of a port share.

import type { ReadScheduler } from "#h2/read-scheduler.ts";
import type { ReplyMemory } from "#h2/unconfirmed-replies.ts";
import type { HttpSettings } from "../settings.ts";
import type { TransportContext } from "../transport.ts";
import type { CostlyQueue } from "./costly-queue.ts";
import type { Router } from "./router.ts";

export interface HttpContext extends TransportContext {
  readonly router: Router;
  readonly settings: HttpSettings;
  readonly scheduler: ReadScheduler;
  /** Replies ask callers to move to another connection. */
  closeAfterReply: boolean;
  /** New requests are refused. */
  draining: boolean;
  /** Bytes, for routes that have no limit of their own. */
  readonly maxBody: number;
  readonly costlyQueue: CostlyQueue;
  /** Bytes of replies that peers have not read yet. */
  unsentBytes: number;
  readonly replyMemory: ReplyMemory;
}
