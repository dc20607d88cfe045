// The skill module: skills in versions, their review, and how agents read them.
import type { Module } from "@/core/module.ts";
import type { ScheduleTakeover } from "@/modules/agent/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { SkillTools } from "./agent_tools.ts";
import { skillApi } from "./api.ts";
import { skillArchive } from "./archive.ts";
import { SkillAttachments } from "./attachments.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { FILES_MAX, SKILL_MAX_BYTES, SKILLS_MAX, VERSIONS_MAX } from "./schema.ts";
import { SkillService } from "./service.ts";
import { SkillStore } from "./store.ts";
import { SkillWriter } from "./writer.ts";

type Deps = { roomAccess: RoomAccess; identity: IdentityService; takeover: ScheduleTakeover };

type SkillModule = Module & { tools: SkillTools };

export function skillModule({ store, clock, metrics }: Platform, deps: Deps): SkillModule {
  const attachments = new SkillAttachments({ store, clock, ...deps });
  const writer = new SkillWriter(clock);
  const skills = new SkillService({ store, metrics, attachments, writer });
  return {
    name: "skill",
    migrations,
    erases,
    ...skillApi(skills, attachments),
    archive: skillArchive(store, writer),
    purgeRoom: (tenantId, roomId) => attachments.purgeRoom(tenantId, roomId),
    gauges: [{
      gauge: metrics.skills,
      async collect(gauge) {
        gauge.reset();
        for (const { state, count } of await new SkillStore(store.db).countByState()) gauge.set({ state }, count);
      },
    }],
    capability: () => ({ skills: SKILLS_MAX, versions: VERSIONS_MAX, files: FILES_MAX, bytes: SKILL_MAX_BYTES }),
    tools: new SkillTools({ store, metrics }),
  };
}
