int a[int]; self int b[int]; BEGIN { self->b; }
