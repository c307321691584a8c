package syntax

// Inspect calls f for n and everything below it, in source order, as long as f
// returns true for the parent.
func Inspect(n Node, f func(Node) bool) {
	if !f(n) {
		return
	}
	expr := func(x Expr) {
		if x != nil {
			Inspect(x, f)
		}
	}
	exprs := func(list []Expr) {
		for _, x := range list {
			expr(x)
		}
	}
	stmts := func(list []Stmt) {
		for _, s := range list {
			Inspect(s, f)
		}
	}
	decls := func(list []*Declarator) {
		for _, d := range list {
			Inspect(d, f)
		}
	}
	params := func(list []*ParamDecl) {
		for _, p := range list {
			Inspect(p, f)
		}
	}
	typ := func(t *TypeName) {
		if t != nil {
			Inspect(t, f)
		}
	}
	switch n := n.(type) {
	case *File:
		for _, d := range n.Decls {
			Inspect(d, f)
		}
	case *Clause:
		for _, d := range n.Descs {
			Inspect(d, f)
		}
		expr(n.Pred)
		stmts(n.Body)
	case *VarDecl:
		Inspect(n.Spec, f)
		decls(n.Vars)
	case *TypeDecl:
		Inspect(n.Spec, f)
		decls(n.Names)
	case *Inline:
		Inspect(n.Spec, f)
		Inspect(n.Decl, f)
		expr(n.X)
	case *Translator:
		typ(n.Dst)
		typ(n.Src)
		for _, m := range n.Members {
			Inspect(m, f)
		}
	case *TransMember:
		expr(n.X)
	case *Provider:
		for _, p := range n.Probes {
			Inspect(p, f)
		}
	case *ProviderProbe:
		params(n.Args)
		params(n.Translated)
	case *ExprStmt:
		expr(n.X)
	case *If:
		expr(n.Cond)
		stmts(n.Then)
		stmts(n.Else)
	case *Block:
		stmts(n.Stmts)
	case *Unary:
		expr(n.X)
	case *Postfix:
		expr(n.X)
	case *Binary:
		expr(n.X)
		expr(n.Y)
	case *Assign:
		expr(n.X)
		expr(n.Y)
	case *Cond:
		expr(n.C)
		expr(n.X)
		expr(n.Y)
	case *Call:
		expr(n.Fun)
		exprs(n.Args)
	case *Index:
		expr(n.X)
		exprs(n.Args)
	case *Member:
		expr(n.X)
	case *Cast:
		typ(n.Type)
		expr(n.X)
	case *Sizeof:
		typ(n.Type)
		expr(n.X)
	case *Offsetof:
		typ(n.Type)
	case *Stringof:
		expr(n.X)
	case *Xlate:
		typ(n.Type)
		expr(n.X)
	case *Agg:
		exprs(n.Keys)
	case *Paren:
		expr(n.X)
	case *TypeName:
		Inspect(n.Spec, f)
		Inspect(n.Decl, f)
	case *DeclSpec:
		if n.Struct != nil {
			Inspect(n.Struct, f)
		}
		if n.Enum != nil {
			Inspect(n.Enum, f)
		}
	case *StructSpec:
		for _, d := range n.Fields {
			Inspect(d, f)
		}
	case *FieldDecl:
		Inspect(n.Spec, f)
		decls(n.Vars)
	case *EnumSpec:
		for _, v := range n.Values {
			Inspect(v, f)
		}
	case *EnumValue:
		expr(n.X)
	case *Declarator:
		for _, p := range n.Parts {
			expr(p.Len)
			params(p.Assoc)
			params(p.Params)
		}
		expr(n.Bits)
	case *ParamDecl:
		Inspect(n.Spec, f)
		Inspect(n.Decl, f)
	}
}
