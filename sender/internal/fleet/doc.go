// Package fleet promises to play what many agents do to one service, with the scheduling
// code that each of them runs and a clock of its own: the same fleet and the same seed
// give the same history.
//
// An agent makes payloads at a steady pace. The service is out of reach for a time, which
// all agents see from the same moment on, and comes back with a bound on how many requests
// it works on at once; what is above that it throttles. The agents then deliver what has
// gathered beside what is made meanwhile.
package fleet
