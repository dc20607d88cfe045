// Prompts: what a person may ask a model to do in rooms, written out.

type PromptDefinition = {
  title: string;
  description: string;
  /** Its only argument, if it has one. */
  argument?: { name: string; description: string; required: boolean };
  write: (argument: string | undefined) => string;
};

const ROOM_ARGUMENT = { name: "roomId", description: "Id of the room, from room_list" };

export const PROMPTS: Readonly<Record<string, PromptDefinition>> = {
  catch_up: {
    title: "Catch up with a room",
    description: "Summarize what is unread in a room",
    argument: { ...ROOM_ARGUMENT, required: true },
    write: (roomId) =>
      `Read the unread messages of room ${roomId}: unread_list says how many there are, message_list returns them. ` +
      "Summarize the decisions, the open questions and what concerns me, and name the seq of each source. " +
      "Do not mark anything as read.",
  },
  daily_summary: {
    title: "Summary of the day",
    description: "Summarize the last 24 hours in all rooms, with tasks that are due",
    write: () =>
      "List my rooms with room_list, and read with message_list what was sent within the last 24 hours in those that have " +
      "new messages. Then list my tasks with task_list. Write a summary of at most 300 words: what happened by room, " +
      "what is due, and what I should respond to. Name the id of each room and the seq of each source.",
  },
  plan_tasks: {
    title: "Plan tasks",
    description: "Find tasks that were agreed on in a room, and create them after a confirmation",
    argument: { ...ROOM_ARGUMENT, required: true },
    write: (roomId) =>
      `Read the latest messages of room ${roomId} with message_list, and its tasks with task_list. List what was agreed on ` +
      "but has no task yet: title, assignee, due date, and the seq of the source. Ask me which of them to create, and " +
      "create only those, with task_create and the id of the message as sourceMessageId.",
  },
};
