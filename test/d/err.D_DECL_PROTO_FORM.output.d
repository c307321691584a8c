provider p { probe a(int i) : (int j); };
