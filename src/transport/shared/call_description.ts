// Descriptions of operations in the OpenAPI and AsyncAPI documents: what they do, what they require, how often they may be called.
import type { Operation, Rate } from "@/core/operation.ts";

/** The description of an operation, as paragraphs. */
export function describeCall({ description, access, rate }: Operation): string {
  const requirement = [
    access.scope === null ? "any token" : `the scope \`${access.scope}\``,
    ...access.tenant === undefined ? [] : [`the tenant role ${access.tenant}`],
    ...access.room === undefined ? [] : [`the room role ${access.room}`],
    ...access.namedRoom === undefined ? [] : [`in a room that it names the role ${access.namedRoom}`],
  ].join(", ");
  const forAdmins = access.namedRoomForAdmins === undefined
    ? ""
    : ` (for admins of the tenant ${access.namedRoomForAdmins})`;
  const direct = access.direct === undefined ? "" : `, in a direct room ${access.direct}`;
  return [
    ...description === undefined ? [] : [description],
    `Requires ${requirement}${forAdmins}${direct}.`,
    ...rate === undefined ? [] : [describeRate(rate)],
  ].join("\n\n");
}

function describeRate({ human, agent }: NonNullable<Operation["rate"]>): string {
  const within = ({ burst, perSecond }: Rate): string => `${burst} calls in ${Math.ceil(burst / perSecond)} s`;
  const people = agent === undefined ? "a principal and its agents" : "a principal";
  const agents = agent === undefined ? "" : `, and ${within(agent)} by its agents`;
  return `Rate limit: ${within(human)} by ${people}${agents}; services have a multiple of it.`;
}
