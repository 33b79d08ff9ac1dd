package config

import "strings"

// Argument returns how a command line names this configuration: " --config" and the path of
// its main file, or nothing if that is DefaultPath, which commands read by themselves.
func (c *Config) Argument() string {
	if len(c.Files) == 0 || c.Files[0] == DefaultPath {
		return ""
	}
	return " --config " + Quoted(c.Files[0])
}

// Quoted returns a text as one word of a shell's command line.
func Quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
