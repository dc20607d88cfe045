// The caller's team, as it is named above the rooms of everybody.
import { call } from "./api.ts";
import type { Me } from "./resources.ts";
import { me } from "./session.ts";

export async function renameTeam(name: string): Promise<void> {
  const tenant = await call<Me["tenant"]>("PATCH", "v1/collaboration/tenant", { name: name.trim() });
  if (me.value !== undefined) me.value = { ...me.value, tenant };
}
