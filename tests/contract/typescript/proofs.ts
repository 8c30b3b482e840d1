// What a generated client knows of Frontdesk: it compiles only if all of this is so.
import { chatAsk, chatEntries, chatEvents, chatStream, type ClientFrame, type Event } from "./desk";

function told(event: Event): string | number {
  switch (event.type) {
    case "tool_call":
    case "tool_result":
      return event.name;
    case "text_chunk":
      return event.content;
    case "done":
    case "usage":
      return event.usage.input_tokens;
    case "error":
      return event.retry_after_seconds ?? event.code;
    case "run_started":
      return event.conversation_id;
    case "entry":
      return event.entry_seq;
    case "resync":
      return event.last_seq;
    default: {
      const other: never = event;
      return other;
    }
  }
}

export async function streamed(): Promise<void> {
  const { stream } = await chatStream({ body: { text: "hi", live: true } });
  for await (const event of stream) {
    told(event);
    if (event.type === "tool_call") {
      event.name satisfies string;
      // @ts-expect-error A call has no content: it is neither `unknown` nor `any`.
      event.content;
    }
    // @ts-expect-error Not every event has a name.
    event.name;
    // @ts-expect-error No event is of this type.
    event.type === "nonsense";
  }
}

export async function resumed(): Promise<void> {
  const { stream } = await chatEvents({
    path: { run_id: "run" },
    query: { after: 5, live: true },
    headers: { "Last-Event-ID": "run:5" },
  });
  for await (const event of stream) told(event);
}

export async function answered(): Promise<void> {
  const { data, error } = await chatAsk({ body: { text: "hi", conversation_id: "new" } });
  if (error) {
    error.code satisfies string;
    // @ts-expect-error A problem has no answer.
    error.answer;
  } else {
    data.events.map(told);
    data.answer satisfies string;
  }
  // @ts-expect-error A question has a text.
  await chatAsk({ body: {} });
}

export async function read(): Promise<void> {
  const { data } = await chatEntries({ path: { conversation_id: "c" }, query: { limit: 10 } });
  data?.items[0]?.kind satisfies "user" | "assistant" | "action" | "error" | undefined;
  data?.next satisfies number | null | undefined;
}

export const FRAMES: ClientFrame[] = [
  { type: "message", text: "hi" },
  { type: "attach", run_id: "run", after: 5 },
  // @ts-expect-error Only a message has a text.
  { type: "attach", text: "hi" },
];
