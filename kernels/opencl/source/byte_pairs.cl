// Products of bytes, two at a time, by AVX2's instructions: for drivers that compile for such a
// processor with clang. Vectors are of 8, and the bytes of q are as product.cl has them.

#ifdef HAS_BYTE_PAIRS

typedef char Bytes __attribute__((ext_vector_type(32)));

static inline short16 pairs_of(uint8 q, uint x)
{
    Bytes own = __builtin_astype(q, Bytes), other = __builtin_astype((uint8)(x), Bytes);
#ifdef Q_SIGNED  // signs go to the other side, for the instruction takes own bytes without one
    other = __builtin_ia32_psignb256(other, own);
    own = __builtin_ia32_psignb256(own, own);
#endif
    return __builtin_ia32_pmaddubsw256(own, other);
}

static inline int8 sum_of_pairs(short16 pairs)
{
    return __builtin_ia32_pmaddwd256(pairs, (short16)(1));
}

#endif
