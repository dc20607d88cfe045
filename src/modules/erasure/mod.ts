// The erasure module: a person of a tenant is erased from the tables of all modules, by what each declares of its own.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { ErasedPrincipals } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { storeErasure } from "@/ports/store_erasure.ts";
import { erasureApi } from "./api.ts";
import { addCount } from "./counts.ts";
import { Eraser } from "./eraser.ts";
import { erases, migrations } from "./migrations.ts";
import { assertNotHeld, ERASE_JOB, ErasureService } from "./service.ts";

type Deps = { principals: ErasedPrincipals; days: number };

export function erasureModule({ store, clock, cursors, metrics, holds, modules }: Platform, deps: Deps): Module {
  const eraser = new Eraser({
    store,
    // The store last: its log has the events of what is done before.
    erasures: () => [...modules.flatMap((module) => [module.erases ?? {}]), storeErasure],
    async onChange(tx, person, change) {
      await assertNotHeld(holds, tx.db, person);
      await addCount(tx, person, change);
    },
  });
  const onDone = (mode: string): void => metrics.erasures.inc({ mode });
  const erasures = new ErasureService({ store, clock, cursors, holds, eraser, onDone, ...deps });
  return {
    name: "erasure",
    migrations,
    erases,
    ...erasureApi(erasures),
    jobs: [
      defineJob({
        kind: ERASE_JOB,
        payload: z.strictObject({ id: z.string() }),
        isLongRunning: true,
        run: ({ tenantId, payload }) => erasures.run(tenantId, payload.id),
      }),
    ],
    capability: () => ({ days: deps.days }),
  };
}
