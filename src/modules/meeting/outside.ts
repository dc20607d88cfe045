// What meetings tell and offer others, as narrow as it is used.

/** A call that nobody answered, as its callees are told. */
export type MeetingNotice = {
  tenantId: string;
  principalIds: readonly string[];
  kind: "missed_call";
  roomId: string;
  resource: { type: "meeting"; id: string };
  title?: string;
  data: { callerId: string };
};

/** Notifies principals. Called inside the transaction of the change, which the notifier's own writes join. */
export type Notify = (notice: MeetingNotice) => Promise<void>;

/** What a meeting takes from what it belongs to. */
export type Appointment = { title: string | null; scheduledFor: string };
