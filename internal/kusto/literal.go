package kusto

// EntityName writes the name of a database, table or column as commands read it
// wherever an entity is meant: in brackets and quotes.
func EntityName(name string) string { return kqlName(name) }

// StringLiteral writes a text as a string of KQL in double quotes.
func StringLiteral(text string) string { return kqlString(text, '"') }

// TextLiteral is StringLiteral in single quotes.
func TextLiteral(text string) string { return kqlString(text, '\'') }
