// Package e2e promises that what the documents say of the program holds for the program: its tests
// start the commands as processes, beside real files, real writers and the emulator, and look at the
// rows that arrive, at what is printed, and at the exit codes.
//
// The test binary is the program too, so that a signal hits a real process that the race detector
// watches. internal/e2e/sdk holds what needs the SDK of the service.
package e2e
