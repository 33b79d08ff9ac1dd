package telemetry

import (
	"errors"
	"net"
	"strconv"

	"kusto-agent/internal/units"
)

// Config says where the agent shows what it does. Start from DefaultConfig.
type Config struct {
	Listen string    `yaml:"listen"` // host:port; empty: off
	Log    LogConfig `yaml:"log"`
}

// LogConfig says what is logged and in which form.
type LogConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // auto: as suits where it is read; text or json
}

// DefaultConfig is what holds where the configuration says nothing.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:5878", Log: LogConfig{Level: "info", Format: "auto"}}
}

// Validate returns every complaint as a *units.KeyError, joined.
func (c Config) Validate() error {
	return errors.Join(
		checkListen(c.Listen),
		units.OneOf("log.level", c.Log.Level, "debug", "info", "warn", "error"),
		units.OneOf("log.format", c.Log.Format, "auto", "text", "json"))
}

func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return units.Bad("listen", "%q is no address to listen on; want host:port, or \"\" for off", addr)
	}
	return nil
}
