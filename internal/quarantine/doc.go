// Package quarantine keeps a refused record with its place and its reason
// until a person decides.
//
// On disk it is a folder of JSON lines, files named by their number and never
// changed but by appending to the newest. Nothing here removes a line, unless
// the configuration says drop_oldest. A person may remove files or move them
// away at any time, also while the agent runs.
package quarantine
