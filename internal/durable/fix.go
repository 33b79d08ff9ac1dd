package durable

import (
	"errors"
	"io/fs"
	"syscall"
)

// Fix returns what a person can do about a disk error. where names the place, for instance a key of
// the configuration.
func Fix(err error, where string) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on the disk of " + where
	case errors.Is(err, syscall.EROFS):
		return "mount the disk of " + where + " writable"
	case errors.Is(err, fs.ErrPermission):
		return "let the agent's user write to " + where
	case errors.Is(err, ErrRemoved):
		return "find out who removes files from " + where + ": nobody but the agent may"
	}
	return "check the disk of " + where
}
