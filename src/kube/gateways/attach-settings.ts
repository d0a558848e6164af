// Settings of attachment, the same for all targets.

export interface AttachSettings {
  /** The agents' Service, `NAME.NAMESPACE.svc.DOMAIN:PORT`. */
  readonly agents: string;
  /** True if requests pass while no agent answers. */
  readonly failOpen: boolean;
}
