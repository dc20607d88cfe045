// What goes through the door where a refresh token is changed for new tokens.
import { z } from "@zod/zod";

export const Refresh = z.strictObject({
  refreshToken: z.string().min(1).max(8192).describe("The latest one of its family; it is good once"),
});

export const Refreshed = z.object({
  accessToken: z.string().describe("Bearer token of every other door"),
  refreshToken: z.string().describe("Takes the place of the one that was sent; keep it at once"),
  expiresAt: z.iso.datetime().describe("When the access token ends"),
  refreshExpiresAt: z.iso.datetime().describe("When the refresh token ends, unless it is used before"),
});
export type Refreshed = z.output<typeof Refreshed>;
