// Package quarantine keeps a refused record with its place and its reason
// until a person decides.
//
// On disk it is a folder of JSON lines, files named by their number. The newest is
// appended to; any is replaced as a whole, at once, where a person has had lines
// removed or sent again. A line keeps its number for good: an empty one was removed.
// Nothing here removes a line, unless a person says so, or the configuration with
// drop_oldest. A person may remove files or move them away at any time, also while
// the agent runs.
//
// Before records are sent again the file requeue.json says which, and under which
// batch id; it goes when it is known what came of that. One that is found by Open is
// of a process that came to a sudden end: its records are still there, and their
// lines then say that they may be stored already. The file requeue.accepted has the IDs
// of lines that were sent again and accepted since: they are removed with the next
// replacement of their files, at the latest by the next Open.
package quarantine
