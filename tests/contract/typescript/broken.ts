// broken.ts
// Follows an answer over connections that break, and looks whether each event has come once, and in order.
import { chatEvents, chatStream, type Event } from "./desk";
import { client } from "./desk/client.gen";

client.setConfig({
  baseUrl: "http://localhost:8000",
  auth: ({ scheme }) => (scheme === "bearer" ? "TOKEN" : undefined),
});

const shown: Event[] = [];
let breaks = 0;
let run_id = "";
const { stream } = await chatStream({
  body: { text: "List all materials", request_id: crypto.randomUUID() },
  sseDefaultRetryDelay: 20,
  onSseError: () => (breaks += 1),
  onSseEvent: ({ id }) => (run_id = id?.split(":")[0] ?? ""),
});
for await (const event of stream) shown.push(event);

const whole: Event[] = [];
const { stream: again } = await chatEvents({ path: { run_id } });
for await (const event of again) whole.push(event);
if (JSON.stringify(shown) !== JSON.stringify(whole)) throw new Error(JSON.stringify(shown));
console.log(`${breaks} breaks, ${shown.at(-1)?.type}`);
