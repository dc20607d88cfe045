# The gateway as a container: fetched and compiled once, then run by a user who owns nothing but the data folder.
ARG DENO_VERSION=2.9.6

FROM denoland/deno:${DENO_VERSION} AS build
WORKDIR /app
COPY deno.json deno.lock ./
COPY src src
RUN deno cache --frozen src/main.ts

FROM denoland/deno:${DENO_VERSION}
ARG SVC_COMMIT=unknown
ENV SVC_COMMIT=${SVC_COMMIT} DENO_NO_UPDATE_CHECK=1
WORKDIR /app
COPY --from=build /deno-dir /deno-dir
COPY --from=build /app /app
RUN install --directory --owner=deno --group=deno data
USER deno
VOLUME /app/data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s --start-interval=2s \
  CMD ["deno", "task", "--quiet", "start", "health"]
# The permissions are those of the task.
CMD ["deno", "task", "--quiet", "start"]
